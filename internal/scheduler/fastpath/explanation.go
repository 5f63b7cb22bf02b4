// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

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
	nominated map[string]*nominatedStatus
}

// nominatedStatus is the status of a node with nominated pods.
type nominatedStatus struct {
	// alone is the status without the nominated pods.
	alone *fwk.Status
	// number identifies the pods for which the diagnosis was made (decision.nominated). 0: none,
	// the filters must be run.
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
func (e *explanation) holds(snapshot *cache.Snapshot, nominated map[string]uint64) bool {
	if e.pos != snapshot.Log().End() || len(e.nominated) != len(nominated) {
		return false
	}
	for name, n := range e.nominated {
		if n.number == 0 || n.number != nominated[name] {
			return false
		}
	}
	return true
}

// noteNominated records the nominated pods for which a new diagnosis was made.
func (e *explanation) noteNominated(ctx context.Context, snapshot *cache.Snapshot, nominated map[string]uint64,
	f *nodeFilters) {
	e.nominated = make(map[string]*nominatedStatus, len(nominated))
	for name, number := range nominated {
		n := &nominatedStatus{number: number}
		if slot, ok := snapshot.SlotOf(name); ok && e.nodeWise {
			n.alone = f.alone(ctx, snapshot.Info(slot))
		}
		e.nominated[name] = n
	}
}

// refresh brings the diagnosis up to date with the snapshot and the nominated pods by running the
// filters on the nodes that have changed. It returns false if the explanation can no longer be
// used: nodes were added or removed, more than half have changed, or one does not refuse the pod.
func (e *explanation) refresh(ctx context.Context, r *refresher, nominated map[string]uint64, f *nodeFilters) bool {
	changes, ok := r.snapshot.Log().Since(e.pos)
	if !ok || 2*len(changes) > r.snapshot.Slots() {
		return false
	}
	for _, change := range changes {
		if change.Kind == cache.NodeAdded || change.Kind == cache.NodeRemoved {
			return false
		}
	}
	renewed := e.refusals == nil
	if renewed {
		e.refusals = newRefusals(e.diagnosis.NodeToStatus)
	}
	codes := e.refusals.codes
	if !e.refreshChanged(ctx, r, changes, nominated, f) || !e.refreshNominated(ctx, r, nominated, f) {
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
	e.diagnosis.UnschedulablePlugins, e.diagnosis.PendingPlugins = nil, nil
	e.refusals.addPlugins(e.diagnosis)
	return true
}

// refreshChanged runs the filters on the nodes that have changed, without nominated pods.
func (e *explanation) refreshChanged(ctx context.Context, r *refresher, changes []cache.Change,
	nominated map[string]uint64, f *nodeFilters) bool {
	r.seen.reset(r.snapshot.Slots())
	for _, change := range changes {
		if !r.seen.add(change.Slot) {
			continue
		}
		node := r.snapshot.Info(change.Slot)
		name, alone := node.Node().Name, f.alone(ctx, node)
		r.examined++
		switch {
		case e.nominated[name] != nil || nominated[name] != 0:
			e.nominated[name] = &nominatedStatus{alone: alone}
		case !alone.IsRejected():
			return false
		default:
			e.refusals.set(name, alone)
		}
	}
	return true
}

// refreshNominated runs the filters on the nodes whose nominated pods have changed.
func (e *explanation) refreshNominated(ctx context.Context, r *refresher, nominated map[string]uint64,
	f *nodeFilters) bool {
	for name, n := range e.nominated {
		if nominated[name] != 0 {
			continue
		}
		if !n.alone.IsRejected() {
			return false
		}
		e.refusals.set(name, n.alone)
		delete(e.nominated, name)
	}
	for name, number := range nominated {
		n := e.nominated[name]
		if n == nil {
			n = &nominatedStatus{alone: e.refusals.byName[name]}
			e.nominated[name] = n
		}
		slot, exists := r.snapshot.SlotOf(name)
		if exists && n.number != number {
			status := f.beside(ctx, r.snapshot.Info(slot))
			if !status.IsRejected() {
				return false
			}
			e.refusals.set(name, status)
			r.examined++
		}
		n.number = number
	}
	return true
}

// message returns the message of the error, without what PostFilter adds.
func (e *explanation) message(err *schedframework.FitError) string {
	if e.refusals == nil {
		return err.Error()
	}
	return e.refusals.message(err.NumAllNodes)
}
