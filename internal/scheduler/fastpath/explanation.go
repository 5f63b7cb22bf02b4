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

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
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
	// nodeWise is true if the status of each node is independent of other nodes.
	nodeWise bool
	// refusals counts the statuses of the diagnosis. It is nil until the first node has changed.
	refusals *refusals
	// nominated holds the nodes with nominated pods. Their statuses take these pods into account.
	// read is the position in the changes of nominations. own is the node that the latest pod itself
	// is nominated to, without which the status there was determined. outdated are nodes of which
	// only the status without nominated pods is known, within one update.
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
	// number identifies the pods for which the diagnosis was made. 0: none, the filters must be run.
	number uint64
}

// nodeFilters runs the Filter plugins on single nodes for one pod.
type nodeFilters struct {
	framework *framework.Framework
	state     fwk.CycleState
	pod       *corev1.Pod
}

// alone runs the filters without the pods that are nominated to the node.
func (f *nodeFilters) alone(ctx context.Context, node fwk.NodeInfo) *fwk.Status {
	return f.framework.RunFilterPlugins(ctx, f.state, f.pod, node)
}

// beside runs the filters with the pods that are nominated to the node.
func (f *nodeFilters) beside(ctx context.Context, node fwk.NodeInfo) *fwk.Status {
	return f.framework.RunFilterPluginsWithNominatedPods(ctx, f.state, f.pod, node)
}

// refusalBytes estimates the memory of a diagnosis and its refusals for a node.
const refusalBytes = 104

func (e *explanation) size() int {
	if e.diagnosis == nil {
		return 0
	}
	return refusalBytes * (e.diagnosis.NodeToStatus.Len() + len(e.nominated))
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
		if slot, ok := snapshot.SlotOf(name); ok && e.nodeWise {
			n.alone = f.alone(ctx, snapshot.Info(slot))
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
func (e *explanation) refresh(ctx context.Context, r *refresher, nominated *framework.NominatedNodes,
	f *nodeFilters) bool {
	changes, ok := r.snapshot.Log().Since(e.pos)
	if !ok || 2*len(changes) > r.snapshot.Slots() {
		return false
	}
	renewed := e.refusals == nil
	if renewed {
		e.refusals = newRefusals(e.diagnosis.NodeToStatus)
	}
	e.removeNodes(r.snapshot, changes)
	u := explanationUpdate{explanation: e, nodeFilters: f, refresher: r, now: nominated}
	codes := e.refusals.codes
	if !u.refreshChanged(ctx, changes) || !u.refreshNominated(ctx) {
		return false
	}
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
	now *framework.NominatedNodes
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
			continue
		}
		name, alone := node.Node().Name, u.alone(ctx, node)
		u.examined++
		switch {
		case u.nominated[name] != nil || u.now.Number(name) != 0:
			u.nominated[name] = &nominatedStatus{alone: alone}
			u.outdated = append(u.outdated, name)
		case !alone.IsRejected():
			return false
		default:
			u.refusals.set(name, alone)
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
	return true
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
		if !exists {
			return true
		}
		if !n.alone.IsRejected() {
			return false
		}
		u.refusals.set(name, n.alone)
		return true
	case n == nil:
		n = &nominatedStatus{alone: u.refusals.byName[name]}
		u.nominated[name] = n
	}
	if exists && n.number != number {
		status := u.beside(ctx, u.snapshot.Info(slot))
		if !status.IsRejected() {
			return false
		}
		u.refusals.set(name, status)
		u.examined++
	}
	n.number = number
	return true
}

// message returns the message of the error, without what PostFilter adds.
func (e *explanation) message(err *schedframework.FitError) string {
	if e.refusals == nil {
		return err.Error()
	}
	return e.refusals.message(err.NumAllNodes)
}
