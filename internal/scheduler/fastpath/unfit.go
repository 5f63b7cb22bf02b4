// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"maps"

	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Unfit is the outcome that the pod fits no node. The scalar path explains it for the first pod of
// a class. Keep stores the explanation, and Explain returns it for the following pods while little
// changes.
type Unfit struct{ of Attempt }

// Explained reports whether Explain may return an explanation.
func (u Unfit) Explained() bool {
	d := u.of.lent()
	return d.explainedNodeWise() || d.mayBeExplained() && (d.class.explanation.tracks || d.explanationHolds())
}

// Explain returns why the pod fits no node, if an explanation was kept for another pod of its class
// and little has changed since. Otherwise it returns nil, as for pods that name nodes and for pods
// for which uncached plugins were run. It runs the filters on the nodes that have changed, and on
// those whose nominated pods have changed. PreFilter must be deferred for state, or have run.
//
// The statuses of the nodes are shared and must not be modified. They are valid until the next
// decision.
func (u Unfit) Explain(ctx context.Context, state fwk.CycleState) *UnfitError {
	if !u.Explained() {
		return nil
	}
	d := u.of.lent()
	known := &d.class.explanation
	if !known.allNodes && framework.RunDeferredPreFilter(ctx, state) != nil {
		return nil
	}
	if !d.explanationHolds() && !known.refresh(ctx, &d.refresher, d.class, d.nominated, d.nodeFilters(state)) {
		*known = explanation{} // it may be up to date for some nodes only
		return nil
	}
	if d.checkDevices(ctx) != None {
		return nil
	}
	err := &UnfitError{
		FitError: schedframework.FitError{Pod: d.Pod, NumAllNodes: d.engine.NumNodes(), Diagnosis: *known.diagnosis},
		Refusals: d.refusals(),
	}
	if known.text == "" {
		known.text = known.message(&err.FitError)
	}
	err.text = known.text
	// The code that puts the pod back into the queue adds to these sets.
	own := &err.Diagnosis
	own.UnschedulablePlugins, own.PendingPlugins = maps.Clone(own.UnschedulablePlugins), maps.Clone(own.PendingPlugins)
	return err
}

// Keep stores the diagnosis of the scalar path, which has used state, for Explain. It does nothing
// if the diagnosis may depend on more than the class, the snapshot and the nominated pods of the
// decision. It does not modify the diagnosis before the next decision, and does not read it
// afterwards. Keep returns the identity of the statuses, or the zero value if it stored nothing.
func (u Unfit) Keep(ctx context.Context, diagnosis schedframework.Diagnosis, state fwk.CycleState) framework.Refusals {
	d := u.of.lent()
	c, classes, snapshot := d.class, d.engine.classes, d.engine.snapshot
	if u.of.NominationsChanged() || classes.byID[c.id] != c || d.named || d.uncached.state != nil {
		return framework.Refusals{}
	}
	diagnosis.UnschedulablePlugins, diagnosis.PendingPlugins = maps.Clone(diagnosis.UnschedulablePlugins),
		maps.Clone(diagnosis.PendingPlugins)
	all := diagnosis.NodeToStatus.Len() == d.engine.NumNodes()
	c.explanation = explanation{
		diagnosis: &diagnosis, version: classes.nextVersion(), pos: snapshot.Log().End(),
		allNodes: all, nodeWise: all && c.acceptsAll(), tracks: all && d.Plan.last,
	}
	c.explanation.noteNominated(ctx, snapshot, d.nominated, d.nodeFilters(state))
	if d.checkDevices(ctx) != None {
		return framework.Refusals{}
	}
	classes.account(c)
	return d.refusals()
}

// UnfitError is the error about a pod whose class is known to fit no node. It wraps the FitError.
type UnfitError struct {
	schedframework.FitError
	// Refusals identifies the statuses of the nodes.
	Refusals framework.Refusals
	// text is the message of the FitError, without the part that PostFilter adds.
	text string
}

// Error returns the message of the FitError. FitError.Error would count the reasons of all nodes at
// each call.
func (u *UnfitError) Error() string {
	if u.Diagnosis.PostFilterMsg == "" {
		return u.text
	}
	return u.text + " " + u.Diagnosis.PostFilterMsg
}

// Unwrap returns the FitError.
func (u *UnfitError) Unwrap() error { return &u.FitError }

// mayBeExplained reports whether there is an explanation for the class, even if it is out of date.
func (d *decision) mayBeExplained() bool {
	return d.class.explanation.diagnosis != nil && !d.named && d.uncached.state == nil
}

// explainedNodeWise reports whether the status of each node is independent of other nodes, both
// when the explanation was kept and now.
func (d *decision) explainedNodeWise() bool {
	return d.mayBeExplained() && d.class.explanation.nodeWise && d.class.acceptsAll()
}

func (d *decision) explanationHolds() bool {
	return d.class.explanation.holds(d.engine.snapshot, d.nominated)
}

func (d *decision) nodeFilters(state fwk.CycleState) *nodeFilters {
	return &nodeFilters{plan: d.Plan, state: state, pod: d.Pod}
}

// refusals returns the identity of the statuses of the explanation, which must hold.
func (d *decision) refusals() framework.Refusals {
	r := framework.Refusals{Version: d.class.explanation.version}
	if d.explainedNodeWise() {
		r.Class = uint64(d.class.id)
	}
	return r
}
