// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Part returns a Framework that runs only the plugins that keep selects at PreFilter, Filter,
// PreScore and Score. It shares everything else with f and records the same metrics, except the
// durations of extension points, as it does not run all of their plugins. It is for a caller that
// runs the plugins of one profile in several ways.
func (f *Framework) Part(keep func(fwk.Plugin) bool) *Framework {
	part := *f
	part.points = nil
	part.preFilter = keepOf(f.preFilter, func(p *preFilterPlugin) bool { return keep(p.plugin) })
	part.filter = keepOf(f.filter, func(p *instrumented[fwk.FilterPlugin]) bool { return keep(p.plugin) })
	part.preScore = keepOf(f.preScore, func(p *instrumented[fwk.PreScorePlugin]) bool { return keep(p.plugin) })
	part.score = keepOf(f.score, func(p *scorePlugin) bool { return keep(p.plugin) })
	return &part
}

func keepOf[T any](list []T, keep func(*T) bool) []T {
	var kept []T
	for i := range list {
		if keep(&list[i]) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// FilterNames returns the names of the Filter plugins in their order.
func (f *Framework) FilterNames() []string {
	var names []string
	for i := range f.filter {
		names = append(names, f.filter[i].name)
	}
	return names
}

// WeightedScore is a Score plugin with its weight.
type WeightedScore struct {
	Plugin fwk.ScorePlugin
	Weight int64
}

// ScorePlugins returns the Score plugins in their order.
func (f *Framework) ScorePlugins() []WeightedScore {
	out := make([]WeightedScore, 0, len(f.score))
	for i := range f.score {
		out = append(out, WeightedScore{f.score[i].plugin, f.score[i].weight})
	}
	return out
}

// AllSkip runs the PreFilter plugins for a pod and reports whether all of them skip. It ends at the
// first that does not. The plugins receive no nodes. skipped holds the names of all PreFilter
// plugins; the state stores it, so it must not be modified.
func (f *Framework) AllSkip(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, skipped sets.Set[string]) bool {
	logger := newPointLogger(ctx, schedmetrics.PreFilter)
	for i := range f.preFilter {
		pl := &f.preFilter[i]
		if _, status := f.runPreFilter(logger.context(ctx, pl.name), *pl, state, pod, nil); !status.IsSkip() {
			return false
		}
	}
	state.SetSkipFilterPlugins(skipped)
	return true
}

// ScoreNode writes into scores, in the order of ScorePlugins, the scores of one node from the Score
// plugins that PreScore did not skip, before normalisation. It does not change the scores of
// skipped ones. Any other status than success is an error.
func (f *Framework) ScoreNode(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo, scores []int64,
) *fwk.Status {
	logger := newPointLogger(ctx, schedmetrics.Score)
	skipped := state.GetSkipScorePlugins()
	for i := range f.score {
		pl := &f.score[i]
		if skipped.Has(pl.name) {
			continue
		}
		var status *fwk.Status
		if scores[i], status = f.runScore(logger.context(ctx, pl.name), pl, state, pod, node); !status.IsSuccess() {
			return status
		}
	}
	return nil
}

// NormalizeScores calls NormalizeScore of the plugin at position i of ScorePlugins, which must have
// ScoreExtensions.
func (f *Framework) NormalizeScores(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, i int, scores fwk.NodeScoreList,
) *fwk.Status {
	return f.runNormalizeScore(ctx, &f.score[i], state, pod, scores)
}
