// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// decideBoth decides on both paths and compares them (--fast-path=verify). The decision of the
// scalar path is used. Both evaluate all nodes, whatever the percentage: two searches that end
// early may find different nodes.
func (d *Decider) decideBoth(ctx context.Context, r request) (Decision, error) {
	all, state := r, schedframework.NewCycleState()
	state.SetPodGroupSchedulingCycle(r.state.GetPodGroupSchedulingCycle())
	all.PercentageOfNodesToScore, all.state = 100, state
	attempt := d.attemptFast(ctx, all, nil)
	began := attempt.ClaimChanges()
	fit, placed := attempt.Fit()
	var placement fastpath.Placement
	if placed {
		placement, placed = fit.Take(ctx, d.draw(fit.Len(), fit.NumPods))
	}
	if placed {
		d.cfg.Engine.Count(metrics.PathFast, placement.Uncached)
		r.PercentageOfNodesToScore = 100
	} else {
		d.cfg.Engine.Count(metrics.PathScalar, attempt.Reason())
	}
	scalar := d.newScalar(r)
	decision, err := scalar.decide(ctx)
	if ctx.Err() != nil || attempt.NominationsChanged() || attempt.ClaimsChanged(began) {
		return decision, err
	}
	if placed && err == nil {
		decision.Class = placement.Class
	}
	difference := d.compare(ctx, attempt, scalar, err)
	if unfit, ok := attempt.Unfit(); ok {
		keepExplanation(ctx, unfit, r.state, err)
	}
	if difference == nil && placement.Uncached != fastpath.None && !attempt.NominationsChanged() &&
		r.state.GetPodGroupSchedulingCycle() == nil {
		difference = d.compareLate(ctx, all, scalar, began)
	}
	if difference != nil {
		metrics.FastPathDifferences.Inc()
		klog.FromContext(ctx).Error(difference, "The fast path came to another decision than the scalar path", "pod",
			klog.KObj(r.pod),
			"fast", placement.NodeName, "scalar", decision.SuggestedHost)
	}
	return decision, err
}

// compareLate returns an error unless an attempt that runs the uncached plugins on the best nodes
// first finds one of the best nodes. It compares nothing if claims have changed since the decision
// began. Attempts before it are out of date afterwards. It must not be called for a pod of a group,
// whose plugins share state.
func (d *Decider) compareLate(ctx context.Context, r request, scalar *scalarAttempt,
	began fastpath.ClaimChanges) error {
	r.state = schedframework.NewCycleState()
	attempt := d.attemptFast(ctx, r, d.drawLate)
	fit, ok := attempt.Fit()
	switch {
	case ctx.Err() != nil || attempt.NominationsChanged() || attempt.ClaimsChanged(began):
		return nil
	case attempt.Reason() == fastpath.NoFit:
		return errors.New("no node was found among the best ones first")
	case !ok:
		return nil // a device class has changed, or a plugin has failed
	}
	if best := scalar.bestNames(); !best.HasAll(fit.Names()...) {
		return fmt.Errorf("among the best nodes first, %v were found, on the scalar path %v", fit.Names(),
			sets.List(best))
	}
	return nil
}

// compare returns an error if an attempt on the fast path differs from one on the scalar path,
// which has ended with err. An attempt that leaves the pod to the scalar path does not differ.
func (d *Decider) compare(ctx context.Context, attempt fastpath.Attempt, scalar *scalarAttempt, err error) error {
	if unfit, ok := attempt.Unfit(); ok {
		return compareUnfit(ctx, unfit, scalar, err)
	}
	fit, ok := attempt.Fit()
	switch {
	case !ok:
		return nil
	case err != nil:
		return err
	}
	return compareFit(ctx, fit, scalar)
}

// compareFit returns an error unless both paths have found the same nodes with the same totals, and
// the same best nodes.
func compareFit(ctx context.Context, fit fastpath.Fit, scalar *scalarAttempt) error {
	totals, err := fit.Totals(ctx)
	if err != nil {
		return err
	}
	if len(totals) != len(scalar.feasible) {
		return fmt.Errorf("%d nodes fit on the fast path, %d on the scalar path", len(totals), len(scalar.feasible))
	}
	for i, node := range scalar.feasible {
		name := node.Node().Name
		total, ok := totals[name]
		switch {
		case !ok:
			return fmt.Errorf("node %q fits on the scalar path only", name)
		case scalar.scores != nil && scalar.scores[i].TotalScore != total:
			return fmt.Errorf("node %q has a total of %d on the fast path, %d on the scalar path", name, total,
				scalar.scores[i].TotalScore)
		}
	}
	if got, want := sets.New(fit.Names()...), scalar.bestNames(); fit.Len() != len(want) || !got.Equal(want) {
		return fmt.Errorf("the best nodes are %v on the fast path, %v on the scalar path", sets.List(got),
			sets.List(want))
	}
	return compareTop(ctx, fit, scalar)
}

// topNodes is the number of nodes whose scores by plugin are compared.
const topNodes = 5

// compareTop returns an error unless the best nodes have the same scores by each plugin on both
// paths.
func compareTop(ctx context.Context, fit fastpath.Fit, scalar *scalarAttempt) error {
	if scalar.scores == nil {
		return nil
	}
	top, err := fit.Top(ctx, topNodes)
	if err != nil {
		return err
	}
	want := make(map[string]*fwk.NodePluginScores, len(scalar.scores))
	for i := range scalar.scores {
		want[scalar.scores[i].Name] = &scalar.scores[i]
	}
	if got, want := fit.Total(), want[top[0].Name].TotalScore; got != want {
		return fmt.Errorf("the highest total is %d on the fast path, %d on the scalar path", got, want)
	}
	for _, node := range top {
		if got, want := byPlugin(&node), byPlugin(want[node.Name]); !maps.Equal(got, want) {
			return fmt.Errorf("node %q has the scores %v on the fast path, %v on the scalar path", node.Name, got, want)
		}
	}
	return nil
}

// byPlugin returns the scores of a node that are not 0, by plugin, and the total.
func byPlugin(node *fwk.NodePluginScores) map[string]int64 {
	scores := map[string]int64{"total": node.TotalScore}
	for _, s := range node.Scores {
		if s.Score != 0 {
			scores[s.Name] = s.Score
		}
	}
	return scores
}

// bestNames returns the names of the nodes with the highest total.
func (s *scalarAttempt) bestNames() sets.Set[string] {
	names := sets.New[string]()
	if s.scores == nil {
		return names.Insert(s.feasible[0].Node().Name)
	}
	for _, i := range s.best() {
		names.Insert(s.scores[i].Name)
	}
	return names
}

// compareUnfit returns an error if the fast path has another explanation than the scalar path.
func compareUnfit(ctx context.Context, unfit fastpath.Unfit, scalar *scalarAttempt, err error) error {
	var want *schedframework.FitError
	switch {
	case err == nil:
		return errors.New("no node fits on the fast path, some do on the scalar path")
	case !errors.As(err, &want):
		return err
	}
	known := unfit.Explain(ctx, scalar.state)
	switch {
	case known == nil:
	case known.Error() != want.Error():
		return fmt.Errorf("the fast path explains %w, the scalar path %w", known, want)
	case !known.Diagnosis.UnschedulablePlugins.Equal(want.Diagnosis.UnschedulablePlugins):
		return fmt.Errorf("%v refuse the pod on the fast path, %v on the scalar path",
			sets.List(known.Diagnosis.UnschedulablePlugins), sets.List(want.Diagnosis.UnschedulablePlugins))
	default:
		return compareStatuses(known.Diagnosis.NodeToStatus, want.Diagnosis.NodeToStatus)
	}
	return nil
}

// compareStatuses returns an error if the statuses of nodes on the two paths differ.
func compareStatuses(known, want *schedframework.NodeToStatus) (err error) {
	if known.Len() != want.Len() {
		return fmt.Errorf("%d nodes have a status on the fast path, %d on the scalar path", known.Len(), want.Len())
	}
	want.ForEachExplicitNode(func(name string, status *fwk.Status) {
		if got := known.Get(name); got.Code() != status.Code() || got.Plugin() != status.Plugin() ||
			got.Message() != status.Message() {
			err = fmt.Errorf("node %q refuses with %v on the fast path, with %v on the scalar path", name, got, status)
		}
	})
	return err
}
