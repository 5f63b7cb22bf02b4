// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// unfit is why the pods of a class fit nowhere.
type unfit struct {
	diagnosis *schedframework.Diagnosis
	// text says so in words. Finding them takes a look at all nodes: they are found for the second pod.
	text string
	// pos is the end of the log when that was found out.
	pos uint64
	// nodeWise says that what was said of a node has nothing to do with others.
	nodeWise bool
	// refusals are what the diagnosis says of the nodes, counted. They are made when the first node has changed.
	refusals *refusals
}

// refusalBytes is about what a diagnosis and its refusals take for a node.
const refusalBytes = 104

func (u *unfit) size() int {
	if u.diagnosis == nil {
		return 0
	}
	return refusalBytes * u.diagnosis.NodeToStatus.Len()
}

// Unfit is the error about a pod of which it was known why it fits nowhere. It wraps the FitError.
type Unfit struct {
	schedframework.FitError
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
func (e *Engine) KnowsUnfit() bool {
	known := &e.last.unfit
	if known.diagnosis == nil || len(e.nominated) > 0 || e.lastNamed || e.rest.state != nil {
		return false
	}
	return known.pos == e.snapshot.Log().End() || known.nodeWise && e.last.letsAll()
}

// Unfit returns why the pod of the last decision, which ended with NoFit, fits nowhere, if that was kept of another pod of
// its class and little has changed since; otherwise nil, as for pods that name nodes or that the rest was run for. Of the nodes
// that have changed ask says what the filters say of the pod now.
//
// The statuses of the nodes are shared, and not to be written to. They are those of the pod until the next decision. As long
// as NodeToStatus is the same the nodes have the same codes.
func (e *Engine) Unfit(pod *corev1.Pod, ask func(node fwk.NodeInfo) *fwk.Status) *Unfit {
	if !e.KnowsUnfit() {
		return nil
	}
	known := &e.last.unfit
	if known.pos != e.snapshot.Log().End() && !known.refresh(e, ask) {
		*known = unfit{} // it may be right of some nodes only
		return nil
	}
	u := &Unfit{FitError: schedframework.FitError{Pod: pod, NumAllNodes: e.NumNodes(), Diagnosis: *known.diagnosis}}
	if known.text == "" {
		known.text = known.words(&u.FitError)
	}
	u.text = known.text
	// Whoever takes the pod back to the queue adds to these.
	d := &u.Diagnosis
	d.UnschedulablePlugins, d.PendingPlugins = cloned(d.UnschedulablePlugins), cloned(d.PendingPlugins)
	return u
}

// KeepUnfit keeps for Unfit what the scalar path has come to after the last decision ended with NoFit. Nothing but what
// the class and the snapshot give may have gone into it. Before the next decision nobody writes to it, and then nobody
// reads it any more.
func (e *Engine) KeepUnfit(d schedframework.Diagnosis) {
	c := e.last
	// The answers to pods with extended resources depend on device classes, too.
	if c.local.extended || e.byID[c.id] != c || len(e.nominated) > 0 || e.lastNamed || e.rest.state != nil {
		return
	}
	d.UnschedulablePlugins, d.PendingPlugins = cloned(d.UnschedulablePlugins), cloned(d.PendingPlugins)
	c.unfit = unfit{diagnosis: &d, pos: e.snapshot.Log().End(), nodeWise: c.letsAll() && d.NodeToStatus.Len() == e.NumNodes()}
	e.account(c)
}

// letsAll says whether the twins let the class's pods on every node, so that what is said of a node follows from that node.
func (c *class) letsAll() bool {
	for _, x := range c.crosses {
		if x.filters && !x.LetsAll() {
			return false
		}
	}
	return true
}

// refresh brings what was said up to the snapshot by asking about the nodes that have changed. With false it is of no use:
// nodes have come or gone, more than half have changed, or one is not refused.
func (u *unfit) refresh(e *Engine, ask func(node fwk.NodeInfo) *fwk.Status) bool {
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
	e.beginMarks()
	for _, change := range changes {
		if !e.mark(change.Slot) {
			continue
		}
		node := e.snapshot.Info(change.Slot)
		status := ask(node)
		if !status.IsRejected() {
			return false
		}
		if u.refusals.set(node.Node().Name, status) {
			renewed = true
		}
		e.looked++
	}
	if renewed {
		u.diagnosis.NodeToStatus = schedframework.NewNodeToStatus(u.refusals.byName, u.diagnosis.NodeToStatus.AbsentNodesStatus())
	}
	u.pos, u.text = e.snapshot.Log().End(), ""
	u.diagnosis.UnschedulablePlugins, u.diagnosis.PendingPlugins = nil, nil
	u.refusals.addPlugins(u.diagnosis)
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
