// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// explanation holds why the pods of a class fit no node: the diagnosis of the scalar path for one
// of them, kept up to date by running the filters on the nodes that have changed.
type explanation struct {
	diagnosis *schedframework.Diagnosis
	// text is the message. Making it takes a pass over all nodes, so it is made only when a second
	// pod needs it.
	text string
	// version changes whenever the code of a node's status changes. No two explanations of an
	// Engine have the same version.
	version uint64
	// pos is the position in the log up to which the diagnosis is up to date.
	pos uint64
	// allNodes is true if each node has a status: PreFilter allows all nodes for the class.
	allNodes bool
	// ofClass is the state that PreFilter of the node-wise plugins left for the class. nil: it has
	// not run yet.
	ofClass fwk.CycleState
	// ofClassBytes estimates the memory of ofClass.
	ofClassBytes int
	// nodeWise is true if the status of each node is independent of other nodes.
	nodeWise bool
	// tracks is true if the statuses of PodTopologySpread and InterPodAffinity are kept up to date,
	// too. tracked then has, by slot, the statuses of the nodes that only these two refuse, except
	// nodes with nominated pods, and nil for others. tracking is the number of these nodes.
	tracks   bool
	tracked  []*fwk.Status
	tracking int
	// refusals counts the statuses of the diagnosis. It is nil until the first node has changed.
	refusals *refusals
	// nominated holds the nodes with nominated pods. Their statuses take these pods into account.
	// read is the position in the changes of nominations. own is the node that the latest pod
	// itself is nominated to, without which the status there was determined. outdated are nodes of
	// which only the status without nominated pods is known, within one update.
	nominated map[string]*nominatedStatus
	read      struct {
		of  *framework.NominatedNodes
		pos uint64
	}
	own      string
	outdated []string
}

// nominatedStatus is the status of a node with nominated pods.
type nominatedStatus struct {
	// alone is the status without the nominated pods.
	alone *fwk.Status
	// number identifies the pods for which the diagnosis was made. 0: none, the filters must be
	// run.
	number uint64
}

// nodeFilters runs the Filter plugins on single nodes for one pod.
type nodeFilters struct {
	plan *Plan
	// state may have PreFilter deferred.
	state fwk.CycleState
	pod   *corev1.Pod
}

// beside runs the filters with the pods that are nominated to the node.
func (f *nodeFilters) beside(ctx context.Context, node fwk.NodeInfo) *fwk.Status {
	if err := framework.RunDeferredPreFilter(ctx, f.state); err != nil {
		return fwk.AsStatus(err)
	}
	return f.plan.framework.RunFilterPluginsWithNominatedPods(ctx, f.state, f.pod, node)
}

// alone runs the filters without the pods that are nominated to the node, apart from those whose
// statuses trackers know.
func (e *explanation) alone(ctx context.Context, f *nodeFilters, node fwk.NodeInfo) *fwk.Status {
	if !f.plan.last {
		if err := framework.RunDeferredPreFilter(ctx, f.state); err != nil {
			return fwk.AsStatus(err)
		}
		return f.plan.framework.RunFilterPlugins(ctx, f.state, f.pod, node)
	}
	if e.ofClass == nil {
		state := schedframework.NewCycleState()
		if _, status, _ := f.plan.nodeWise.RunPreFilterPlugins(ctx, state, f.pod); !status.IsSuccess() {
			return fwk.AsStatus(statusError(status))
		}
		e.ofClass, e.ofClassBytes = state, podfields.NodeSelectionBytes(f.pod)+podfields.HostPortBytes(f.pod)
	}
	return f.plan.nodeWise.RunFilterPlugins(ctx, e.ofClass, f.pod, node)
}

// refusalBytes estimates the memory of a diagnosis and its refusals for a node.
const refusalBytes = 104

func (e *explanation) size() int {
	if e.diagnosis == nil {
		return 0
	}
	return refusalBytes*(e.diagnosis.NodeToStatus.Len()+len(e.nominated)) + 8*cap(e.tracked) + e.ofClassBytes
}

// holds reports whether everything that the diagnosis depends on is unchanged.
func (e *explanation) holds(snapshot *cache.Snapshot, nominated *framework.NominatedNodes) bool {
	return e.pos == snapshot.Log().End() && e.read.of == nominated && e.read.pos == nominated.End() &&
		e.own == "" && nominated.Own() == ""
}

// noteNominated records the nominated pods for which a new diagnosis was made.
func (e *explanation) noteNominated(ctx context.Context, snapshot *cache.Snapshot, nominated *framework.NominatedNodes,
	f *nodeFilters) {
	e.noteRead(nominated)
	e.nominated = map[string]*nominatedStatus{}
	for name, number := range nominated.All {
		n := &nominatedStatus{number: number}
		if slot, ok := snapshot.SlotOf(name); ok && (e.nodeWise || e.tracks) {
			n.alone = e.alone(ctx, f, snapshot.Info(slot))
		}
		e.nominated[name] = n
	}
}

// noteRead records which nominations the diagnosis takes into account.
func (e *explanation) noteRead(nominated *framework.NominatedNodes) {
	e.read.of, e.read.pos, e.own = nominated, nominated.End(), nominated.Own()
}

// refresh brings the diagnosis up to date with the snapshot and the nominated pods by running the
// filters on the nodes that have changed. It returns false if the explanation can no longer be
// used: more than half of the nodes have changed, or one does not refuse the pod.
func (e *explanation) refresh(ctx context.Context, r *refresher, c *class, nominated *framework.NominatedNodes,
	f *nodeFilters) bool {
	changes, ok := r.snapshot.Log().Since(e.pos)
	if !ok || 2*len(changes) > r.snapshot.Slots() {
		return false
	}
	renewed := e.refusals == nil
	if renewed {
		e.refusals = newRefusals(e.diagnosis.NodeToStatus)
		e.findTracked(r.snapshot)
	}
	e.removeNodes(r.snapshot, changes)
	u := explanationUpdate{explanation: e, nodeFilters: f, refresher: r, class: c, now: nominated}
	codes := e.refusals.codes
	if !u.refreshChanged(ctx, changes) || !u.refreshNominated(ctx) || !u.refreshTracked() {
		return false
	}
	e.nodeWise = c.acceptsAll() && (e.nodeWise || e.tracks)
	if e.refusals.codes != codes {
		e.version = r.classes.nextVersion()
	}
	if renewed {
		e.diagnosis.NodeToStatus = schedframework.NewNodeToStatus(e.refusals.byName,
			e.diagnosis.NodeToStatus.AbsentNodesStatus())
	}
	e.pos, e.text = r.snapshot.Log().End(), ""
	e.noteRead(nominated)
	e.diagnosis.UnschedulablePlugins, e.diagnosis.PendingPlugins = nil, nil
	e.refusals.addPlugins(e.diagnosis)
	return true
}

// findTracked finds the nodes that only PodTopologySpread or InterPodAffinity refuses.
func (e *explanation) findTracked(snapshot *cache.Snapshot) {
	if !e.tracks {
		return
	}
	for name, status := range e.refusals.byName {
		slot, ok := snapshot.SlotOf(name)
		ofTrackers := status.Plugin() == podtopologyspread.Name || status.Plugin() == interpodaffinity.Name
		if ok && ofTrackers && e.nominated[name] == nil {
			e.track(slot, status)
		}
	}
}

// track sets the status of a node that only PodTopologySpread or InterPodAffinity refuses; nil: the
// node is not one of these.
func (e *explanation) track(slot cache.Slot, status *fwk.Status) {
	if status == nil && int(slot) >= len(e.tracked) {
		return
	}
	for int(slot) >= len(e.tracked) {
		e.tracked = append(e.tracked, nil)
	}
	if e.tracked[slot] != nil {
		e.tracking--
	}
	if status != nil {
		e.tracking++
	}
	e.tracked[slot] = status
}

// removeNodes removes the statuses of the nodes that do not exist any more. The log does not have
// their names.
func (e *explanation) removeNodes(snapshot *cache.Snapshot, changes []cache.Change) {
	if !slices.ContainsFunc(changes, func(c cache.Change) bool { return c.Kind == cache.NodeRemoved }) {
		return
	}
	for name := range e.refusals.byName {
		if _, ok := snapshot.SlotOf(name); !ok {
			e.refusals.remove(name)
			delete(e.nominated, name)
		}
	}
}

// explanationUpdate brings an explanation up to date with the snapshot and with the nominated pods.
type explanationUpdate struct {
	*explanation
	*nodeFilters
	*refresher
	class *class
	now   *framework.NominatedNodes
}

// toBeRefused is the status of a node that the local filters accept, until a tracker refuses it.
var toBeRefused = fwk.NewStatus(fwk.Unschedulable)

// set replaces the status of a node by that of the local filters. It returns false if they accept
// the node, unless a tracker may refuse it.
func (u *explanationUpdate) set(slot cache.Slot, name string, alone *fwk.Status) bool {
	if alone.IsRejected() {
		u.track(slot, nil)
		u.refusals.set(name, alone)
		return true
	}
	u.track(slot, toBeRefused)
	return u.tracks && alone.IsSuccess()
}

// refreshTracked brings the statuses of PodTopologySpread and InterPodAffinity up to date. It takes
// a pass over the nodes that only these refuse, and touches those whose status is another one now.
func (u *explanationUpdate) refreshTracked() bool {
	if u.tracking == 0 {
		return true
	}
	u.examined += u.tracking
	for slot, known := range u.tracked {
		if known == nil {
			continue
		}
		slot := cache.Slot(slot)
		status := u.class.refusal(slot)
		switch {
		case status == nil:
			return false
		case status != known:
			u.tracked[slot] = status
			u.refusals.set(u.snapshot.Info(slot).Node().Name, status)
		}
	}
	return true
}

// refreshChanged runs the filters on the nodes that have changed, without nominated pods.
func (u *explanationUpdate) refreshChanged(ctx context.Context, changes []cache.Change) bool {
	u.seen.reset(u.snapshot.Slots())
	for _, change := range changes {
		if !u.seen.add(change.Slot) {
			continue
		}
		node := u.snapshot.Info(change.Slot)
		if node == nil {
			u.track(change.Slot, nil)
			continue
		}
		name, alone := node.Node().Name, u.alone(ctx, u.nodeFilters, node)
		u.examined++
		if u.nominated[name] != nil || u.now.Number(name) != 0 {
			u.track(change.Slot, nil)
			u.nominated[name] = &nominatedStatus{alone: alone}
			u.outdated = append(u.outdated, name)
		} else if !u.set(change.Slot, name, alone) {
			return false
		}
	}
	return true
}

// refreshNominated runs the filters on the nodes whose nominated pods have changed, and on those
// with nominated pods that have changed themselves.
func (u *explanationUpdate) refreshNominated(ctx context.Context) bool {
	names, ok := u.now.Since(u.read.pos)
	if !ok || u.read.of != u.now {
		names = slices.Collect(maps.Keys(u.nominated))
		for name := range u.now.All {
			names = append(names, name)
		}
	}
	for _, name := range slices.Concat(names, u.outdated, []string{u.own, u.now.Own()}) {
		if !u.refreshBeside(ctx, name) {
			return false
		}
	}
	u.outdated = u.outdated[:0]
	return u.refreshFollowing(ctx)
}

// refreshFollowing runs the filters on the nodes with nominated pods that the local filters accept
// without these: what the trackers say depends on other nodes.
func (u *explanationUpdate) refreshFollowing(ctx context.Context) bool {
	if !u.tracks || u.class.acceptsAll() {
		return true
	}
	for name, n := range u.nominated {
		if n.alone.IsRejected() || n.number == 0 {
			continue
		}
		if slot, ok := u.snapshot.SlotOf(name); ok && !u.setBeside(ctx, slot, name) {
			return false
		}
	}
	return true
}

// setBeside runs the filters on a node with its nominated pods.
func (u *explanationUpdate) setBeside(ctx context.Context, slot cache.Slot, name string) bool {
	u.examined++
	status := u.beside(ctx, u.snapshot.Info(slot))
	if status.IsRejected() {
		u.refusals.set(name, status)
	}
	return status.IsRejected()
}

// refreshBeside brings the status of a node that has, or had, nominated pods up to date.
func (u *explanationUpdate) refreshBeside(ctx context.Context, name string) bool {
	slot, exists := u.snapshot.SlotOf(name)
	number, n := u.now.Number(name), u.nominated[name]
	switch {
	case number == 0 && n == nil:
		return true
	case number == 0:
		delete(u.nominated, name)
		return !exists || u.set(slot, name, n.alone)
	case n == nil:
		n = &nominatedStatus{alone: u.refusals.byName[name]}
		if exists && int(slot) < len(u.tracked) && u.tracked[slot] != nil {
			n.alone = nil
			u.track(slot, nil)
		}
		u.nominated[name] = n
	}
	changed := n.number != number
	n.number = number
	return !exists || !changed || u.setBeside(ctx, slot, name)
}

// message returns the message of the error, without what PostFilter adds.
func (e *explanation) message(err *schedframework.FitError) string {
	if e.refusals == nil {
		return err.Error()
	}
	return e.refusals.message(err.NumAllNodes)
}
