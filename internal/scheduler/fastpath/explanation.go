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

func (x *explanation) size() int {
	if x.diagnosis == nil {
		return 0
	}
	return refusalBytes * (x.diagnosis.NodeToStatus.Len() + len(x.nominated))
}

// holds reports whether everything that the diagnosis depends on is unchanged.
func (x *explanation) holds(snapshot *cache.Snapshot, nominated map[string]uint64) bool {
	if x.pos != snapshot.Log().End() || len(x.nominated) != len(nominated) {
		return false
	}
	for name, n := range x.nominated {
		if n.number == 0 || n.number != nominated[name] {
			return false
		}
	}
	return true
}

// noteNominated records the nominated pods for which a new diagnosis was made.
func (x *explanation) noteNominated(ctx context.Context, snapshot *cache.Snapshot, nominated map[string]uint64, f *nodeFilters) {
	x.nominated = make(map[string]*nominatedStatus, len(nominated))
	for name, number := range nominated {
		n := &nominatedStatus{number: number}
		if slot, ok := snapshot.SlotOf(name); ok && x.nodeWise {
			n.alone = f.alone(ctx, snapshot.Info(slot))
		}
		x.nominated[name] = n
	}
}

// refresh brings the diagnosis up to date with the snapshot and the nominated pods by running the
// filters on the nodes that have changed. It returns false if the explanation can no longer be
// used: nodes were added or removed, more than half have changed, or one does not refuse the pod.
func (x *explanation) refresh(ctx context.Context, r *refresher, nominated map[string]uint64, f *nodeFilters) bool {
	changes, ok := r.snapshot.Log().Since(x.pos)
	if !ok || 2*len(changes) > r.snapshot.Slots() {
		return false
	}
	for _, change := range changes {
		if change.Kind == cache.NodeAdded || change.Kind == cache.NodeRemoved {
			return false
		}
	}
	renewed := x.refusals == nil
	if renewed {
		x.refusals = newRefusals(x.diagnosis.NodeToStatus)
	}
	codes := x.refusals.codes
	if !x.refreshChanged(ctx, r, changes, nominated, f) || !x.refreshNominated(ctx, r, nominated, f) {
		return false
	}
	if x.refusals.codes != codes {
		x.version = r.classes.nextVersion()
	}
	if renewed {
		x.diagnosis.NodeToStatus = schedframework.NewNodeToStatus(x.refusals.byName, x.diagnosis.NodeToStatus.AbsentNodesStatus())
	}
	x.pos, x.text = r.snapshot.Log().End(), ""
	x.diagnosis.UnschedulablePlugins, x.diagnosis.PendingPlugins = nil, nil
	x.refusals.addPlugins(x.diagnosis)
	return true
}

// refreshChanged runs the filters on the nodes that have changed, without nominated pods.
func (x *explanation) refreshChanged(ctx context.Context, r *refresher, changes []cache.Change, nominated map[string]uint64, f *nodeFilters) bool {
	r.seen.reset(r.snapshot.Slots())
	for _, change := range changes {
		if !r.seen.add(change.Slot) {
			continue
		}
		node := r.snapshot.Info(change.Slot)
		name, alone := node.Node().Name, f.alone(ctx, node)
		r.examined++
		switch {
		case x.nominated[name] != nil || nominated[name] != 0:
			x.nominated[name] = &nominatedStatus{alone: alone}
		case !alone.IsRejected():
			return false
		default:
			x.refusals.set(name, alone)
		}
	}
	return true
}

// refreshNominated runs the filters on the nodes whose nominated pods have changed.
func (x *explanation) refreshNominated(ctx context.Context, r *refresher, nominated map[string]uint64, f *nodeFilters) bool {
	for name, n := range x.nominated {
		if nominated[name] != 0 {
			continue
		}
		if !n.alone.IsRejected() {
			return false
		}
		x.refusals.set(name, n.alone)
		delete(x.nominated, name)
	}
	for name, number := range nominated {
		n := x.nominated[name]
		if n == nil {
			n = &nominatedStatus{alone: x.refusals.byName[name]}
			x.nominated[name] = n
		}
		slot, exists := r.snapshot.SlotOf(name)
		if exists && n.number != number {
			status := f.beside(ctx, r.snapshot.Info(slot))
			if !status.IsRejected() {
				return false
			}
			x.refusals.set(name, status)
			r.examined++
		}
		n.number = number
	}
	return true
}

// message returns the message of the error, without what PostFilter adds.
func (x *explanation) message(err *schedframework.FitError) string {
	if x.refusals == nil {
		return err.Error()
	}
	return x.refusals.message(err.NumAllNodes)
}
