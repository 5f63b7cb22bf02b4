// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// unfit is why the pods of a class fit nowhere.
type unfit struct {
	diagnosis *schedframework.Diagnosis
	// text says so in words. Finding them takes a look at all nodes: they are found for the second
	// pod.
	text string
	// version is another one whenever the code of a node's status changes. No two unfits of an
	// Engine have the same.
	version uint64
	// pos is the end of the log when that was found out.
	pos uint64
	// nodeWise says that what was said of a node has nothing to do with others.
	nodeWise bool
	// refusals are what the diagnosis says of the nodes, counted. They are made when the first node
	// has changed.
	refusals *refusals
	// reserved has the nodes of which the diagnosis says what holds beside the pods that are
	// nominated to them.
	reserved map[string]*reservation
}

// reservation is what is said of a node that pods are nominated to.
type reservation struct {
	// alone is what the filters say without these pods.
	alone *fwk.Status
	// number is of the pods beside whom the diagnosis is right (Engine.nominated). 0: of none, it
	// has to be asked for.
	number uint64
}

// Ask says what the filters say of the pod of a decision and a node.
type Ask struct {
	// Alone leaves the pods out that are nominated to the node, Beside does not.
	Alone, Beside func(fwk.NodeInfo) *fwk.Status
}

// refusalBytes is about what a diagnosis and its refusals take for a node.
const refusalBytes = 104

func (u *unfit) size() int {
	if u.diagnosis == nil {
		return 0
	}
	return refusalBytes * (u.diagnosis.NodeToStatus.Len() + len(u.reserved))
}

// Unfit is the error about a pod of which it was known why it fits nowhere. It wraps the FitError.
type Unfit struct {
	schedframework.FitError
	// Refusals identifies the statuses of the nodes.
	Refusals framework.Refusals
	// text is the FitError's, without what PostFilter adds.
	text string
}

// Error is what the FitError would say, which counts the reasons of all nodes each time.
func (u *Unfit) Error() string {
	if u.Diagnosis.PostFilterMsg == "" {
		return u.text
	}
	return u.text + " " + u.Diagnosis.PostFilterMsg
}

// Unwrap returns the FitError.
func (u *Unfit) Unwrap() error { return &u.FitError }

// KnowsUnfit says whether Unfit may return something.
func (e *Engine) KnowsUnfit() bool { return e.nodeWiseUnfit() || e.anyUnfit() && e.last.unfit.isOf(e) }

// anyUnfit says whether anything is known of why the last pod fits nowhere, be it of another time.
func (e *Engine) anyUnfit() bool {
	return e.last.unfit.diagnosis != nil && !e.lastNamed && e.rest.state == nil
}

// nodeWiseUnfit says whether what is known has nothing to do with other nodes, neither then nor
// now.
func (e *Engine) nodeWiseUnfit() bool {
	return e.anyUnfit() && e.last.unfit.nodeWise && e.last.letsAll()
}

// isOf says whether nothing has changed that the diagnosis goes by.
func (u *unfit) isOf(e *Engine) bool {
	if u.pos != e.snapshot.Log().End() || len(u.reserved) != len(e.nominated) {
		return false
	}
	for name, r := range u.reserved {
		if r.number == 0 || r.number != e.nominated[name] {
			return false
		}
	}
	return true
}

// Unfit returns why the pod of the last decision, which ended with NoFit, fits nowhere, if that was
// kept of another pod of its class and little has changed since; otherwise nil, as for pods that
// name nodes or that the rest was run for. It asks about the nodes that have changed, and those to
// which other pods are nominated than before.
//
// The statuses of the nodes are shared, and not to be written to. They are those of the pod until
// the next decision.
func (e *Engine) Unfit(pod *corev1.Pod, ask Ask) *Unfit {
	if !e.KnowsUnfit() {
		return nil
	}
	known := &e.last.unfit
	if !known.isOf(e) && !known.refresh(e, ask) {
		*known = unfit{} // it may be right of some nodes only
		return nil
	}
	u := &Unfit{FitError: schedframework.FitError{Pod: pod, NumAllNodes: e.NumNodes(), Diagnosis: *known.diagnosis}, Refusals: e.refusals()}
	if known.text == "" {
		known.text = known.words(&u.FitError)
	}
	u.text = known.text
	// Whoever takes the pod back to the queue adds to these.
	d := &u.Diagnosis
	d.UnschedulablePlugins, d.PendingPlugins = cloned(d.UnschedulablePlugins), cloned(d.PendingPlugins)
	return u
}

// KeepUnfit keeps for Unfit what the scalar path has come to after the last decision ended with
// NoFit. Nothing but what the class, the snapshot and the nominated pods of that decision
// (SameNominated) give may have gone into it. Before the next decision nobody writes to it, and
// then nobody reads it any more. It returns what identifies the statuses, the zero value if nothing
// was kept.
func (e *Engine) KeepUnfit(d schedframework.Diagnosis, ask Ask) framework.Refusals {
	c := e.last
	// The answers to pods with extended resources depend on device classes, too.
	if c.local.extended || e.byID[c.id] != c || e.lastNamed || e.rest.state != nil {
		return framework.Refusals{}
	}
	d.UnschedulablePlugins, d.PendingPlugins = cloned(d.UnschedulablePlugins), cloned(d.PendingPlugins)
	c.unfit = unfit{
		diagnosis: &d, version: e.newUnfitVersion(), pos: e.snapshot.Log().End(),
		nodeWise: c.letsAll() && d.NodeToStatus.Len() == e.NumNodes(),
	}
	c.unfit.reserve(e, ask)
	e.account(c)
	return e.refusals()
}

func (e *Engine) newUnfitVersion() uint64 {
	e.unfitVersion++
	return e.unfitVersion
}

// reserve notes beside which pods the diagnosis, which is new, is right.
func (u *unfit) reserve(e *Engine, ask Ask) {
	u.reserved = make(map[string]*reservation, len(e.nominated))
	for name, number := range e.nominated {
		r := &reservation{number: number}
		if slot, ok := e.snapshot.SlotOf(name); ok && u.nodeWise {
			r.alone = ask.Alone(e.snapshot.Info(slot))
		}
		u.reserved[name] = r
	}
}

// refusals identifies the statuses that are kept for the pod of the last decision, and are right.
func (e *Engine) refusals() framework.Refusals {
	r := framework.Refusals{Version: e.last.unfit.version}
	if e.nodeWiseUnfit() {
		r.Class = uint64(e.last.id)
	}
	return r
}

// letsAll says whether the twins let the class's pods on every node, so that what is said of a node
// follows from that node.
func (c *class) letsAll() bool {
	for _, x := range c.crosses {
		if x.filters && !x.LetsAll() {
			return false
		}
	}
	return true
}

// refresh brings what was said up to the snapshot and the nominated pods by asking about the nodes
// that have changed. With false it is of no use: nodes have come or gone, more than half have
// changed, or one is not refused.
func (u *unfit) refresh(e *Engine, ask Ask) bool {
	changes, ok := e.snapshot.Log().Since(u.pos)
	if !ok || 2*len(changes) > e.snapshot.Slots() {
		return false
	}
	for _, change := range changes {
		if change.Kind == cache.NodeAdded || change.Kind == cache.NodeRemoved {
			return false
		}
	}
	renewed := u.refusals == nil
	if renewed {
		u.refusals = newRefusals(u.diagnosis.NodeToStatus)
	}
	codes := u.refusals.codes
	if !u.refreshChanged(e, changes, ask) || !u.refreshReserved(e, ask) {
		return false
	}
	if u.refusals.codes != codes {
		u.version = e.newUnfitVersion()
	}
	if renewed {
		u.diagnosis.NodeToStatus = schedframework.NewNodeToStatus(u.refusals.byName, u.diagnosis.NodeToStatus.AbsentNodesStatus())
	}
	u.pos, u.text = e.snapshot.Log().End(), ""
	u.diagnosis.UnschedulablePlugins, u.diagnosis.PendingPlugins = nil, nil
	u.refusals.addPlugins(u.diagnosis)
	return true
}

// refreshChanged asks about the nodes that have changed as they are without nominated pods.
func (u *unfit) refreshChanged(e *Engine, changes []cache.Change, ask Ask) bool {
	e.beginMarks()
	for _, change := range changes {
		if !e.mark(change.Slot) {
			continue
		}
		node := e.snapshot.Info(change.Slot)
		name, alone := node.Node().Name, ask.Alone(node)
		e.looked++
		switch {
		case u.reserved[name] != nil || e.nominated[name] != 0:
			u.reserved[name] = &reservation{alone: alone}
		case !alone.IsRejected():
			return false
		default:
			u.refusals.set(name, alone)
		}
	}
	return true
}

// refreshReserved asks about the nodes to which others are nominated than before.
func (u *unfit) refreshReserved(e *Engine, ask Ask) bool {
	for name, r := range u.reserved {
		if e.nominated[name] != 0 {
			continue
		}
		if !r.alone.IsRejected() {
			return false
		}
		u.refusals.set(name, r.alone)
		delete(u.reserved, name)
	}
	for name, number := range e.nominated {
		r := u.reserved[name]
		if r == nil {
			r = &reservation{alone: u.refusals.byName[name]}
			u.reserved[name] = r
		}
		slot, exists := e.snapshot.SlotOf(name)
		if exists && r.number != number {
			status := ask.Beside(e.snapshot.Info(slot))
			if !status.IsRejected() {
				return false
			}
			u.refusals.set(name, status)
			e.looked++
		}
		r.number = number
	}
	return true
}

// words are what the error says, without what PostFilter adds.
func (u *unfit) words(err *schedframework.FitError) string {
	if u.refusals == nil {
		return err.Error()
	}
	return u.refusals.words(err.NumAllNodes)
}

func cloned(s sets.Set[string]) sets.Set[string] {
	if s == nil {
		return nil
	}
	return s.Clone()
}
