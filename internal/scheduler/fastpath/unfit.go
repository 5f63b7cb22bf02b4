// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Unfit is the outcome that the pod fits no node. The scalar path explains it for the first pod of
// a class. Keep keeps the explanation, and Explain returns it for the pods that follow, as long as
// little changes.
type Unfit struct{ of Attempt }

// Explained reports whether Explain may return an explanation.
func (u Unfit) Explained() bool { return u.of.lent().explained() }

// Explain returns why the pod fits nowhere, if that was kept for another pod of its class and
// little has changed since; otherwise nil, as for pods that name nodes or that uncached plugins
// were run for. It runs the filters on the nodes that have changed, and on those to which other
// pods are nominated than before. state is one that PreFilter has succeeded with, and has left all
// nodes.
//
// The statuses of the nodes are shared, and not to be written to. They are those of the pod until
// the next decision.
func (u Unfit) Explain(ctx context.Context, state fwk.CycleState) *UnfitError {
	return u.of.lent().explain(ctx, state)
}

// Keep keeps for Explain the diagnosis of the scalar path, which has used state. It does so unless
// more than the class, the snapshot and the nominated pods of the decision may have gone into the
// diagnosis. The diagnosis is not written to before the next decision, and not read any more
// afterwards. Keep returns what identifies the statuses, the zero value if nothing was kept.
func (u Unfit) Keep(ctx context.Context, d schedframework.Diagnosis, state fwk.CycleState) framework.Refusals {
	return u.of.lent().keepExplanation(ctx, d, state)
}

// UnfitError is the error about a pod whose class is known to fit nowhere. It wraps the FitError.
type UnfitError struct {
	schedframework.FitError
	// Refusals identifies the statuses of the nodes.
	Refusals framework.Refusals
	// text is the FitError's, without what PostFilter adds.
	text string
}

// Error returns the message of the FitError, which counts the reasons of all nodes each time.
func (u *UnfitError) Error() string {
	if u.Diagnosis.PostFilterMsg == "" {
		return u.text
	}
	return u.text + " " + u.Diagnosis.PostFilterMsg
}

// Unwrap returns the FitError.
func (u *UnfitError) Unwrap() error { return &u.FitError }

// explained is Unfit.Explained.
func (d *decision) explained() bool {
	return d.explainedNodeWise() || d.mayBeExplained() && d.explanationHolds()
}

// mayBeExplained reports whether there is an explanation for the class, be it out of date.
func (d *decision) mayBeExplained() bool {
	return d.class.explanation.diagnosis != nil && !d.named && d.uncached.state == nil
}

// explainedNodeWise reports whether the explanation of a node has nothing to do with other nodes,
// neither when it was kept nor now.
func (d *decision) explainedNodeWise() bool {
	return d.mayBeExplained() && d.class.explanation.nodeWise && d.class.acceptsAll()
}

func (d *decision) explanationHolds() bool {
	return d.class.explanation.holds(d.engine.snapshot, d.nominated)
}

func (d *decision) nodeFilters(state fwk.CycleState) *nodeFilters {
	return &nodeFilters{d.Plan.framework, state, d.Pod}
}

// explain is Unfit.Explain.
func (d *decision) explain(ctx context.Context, state fwk.CycleState) *UnfitError {
	if !d.explained() {
		return nil
	}
	known := &d.class.explanation
	if !d.explanationHolds() && !known.refresh(ctx, &d.engine.refresher, d.nominated, d.nodeFilters(state)) {
		*known = explanation{} // it may be right of some nodes only
		return nil
	}
	u := &UnfitError{
		FitError: schedframework.FitError{Pod: d.Pod, NumAllNodes: d.engine.NumNodes(), Diagnosis: *known.diagnosis},
		Refusals: d.refusals(),
	}
	if known.text == "" {
		known.text = known.message(&u.FitError)
	}
	u.text = known.text
	// Whoever takes the pod back to the queue adds to these.
	own := &u.Diagnosis
	own.UnschedulablePlugins, own.PendingPlugins = cloned(own.UnschedulablePlugins), cloned(own.PendingPlugins)
	return u
}

// keepExplanation is Unfit.Keep.
func (d *decision) keepExplanation(ctx context.Context, diagnosis schedframework.Diagnosis, state fwk.CycleState) framework.Refusals {
	c, classes, snapshot := d.class, d.engine.classes, d.engine.snapshot
	// The answers to pods with extended resources depend on device classes, too.
	if d.nominationsChanged() || c.local.extended || classes.byID[c.id] != c || d.named || d.uncached.state != nil {
		return framework.Refusals{}
	}
	diagnosis.UnschedulablePlugins, diagnosis.PendingPlugins = cloned(diagnosis.UnschedulablePlugins), cloned(diagnosis.PendingPlugins)
	c.explanation = explanation{
		diagnosis: &diagnosis, version: classes.nextVersion(), pos: snapshot.Log().End(),
		nodeWise: c.acceptsAll() && diagnosis.NodeToStatus.Len() == d.engine.NumNodes(),
	}
	c.explanation.noteNominated(ctx, snapshot, d.nominated, d.nodeFilters(state))
	classes.account(c)
	return d.refusals()
}

// refusals identifies the statuses of the explanation, which holds.
func (d *decision) refusals() framework.Refusals {
	r := framework.Refusals{Version: d.class.explanation.version}
	if d.explainedNodeWise() {
		r.Class = uint64(d.class.id)
	}
	return r
}

func cloned(s sets.Set[string]) sets.Set[string] {
	if s == nil {
		return nil
	}
	return s.Clone()
}
