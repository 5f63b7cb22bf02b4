// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/timing"
)

// RunPreScorePlugins runs the PreScore plugins on the nodes that fit. If a plugin skips, its Score
// does not run for this state; any other status than success is an error and ends the run.
func (f *Framework) RunPreScorePlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (status *fwk.Status) {
	defer f.observePoint(schedmetrics.PreScore, time.Now(), &status)
	skipped := sets.New[string]()
	defer func() { state.SetSkipScorePlugins(skipped) }()

	logger := newPointLogger(ctx, schedmetrics.PreScore)
	for _, pl := range f.preScore {
		ctx := logger.context(ctx, pl.name)
		s := f.call(ctx, state, schedmetrics.PreScore, pl.name, func() *fwk.Status {
			return pl.plugin.PreScore(ctx, state, pod, nodes)
		})
		if s.IsSkip() {
			skipped.Insert(pl.name)
			continue
		}
		pl.evaluations.Inc()
		if !s.IsSuccess() {
			return failed(schedmetrics.PreScore, pl.name, s)
		}
	}
	return nil
}

// RunScorePlugins scores the nodes with the Score plugins that PreScore did not skip, normalises
// the scores of each plugin, and returns for every node, in the order of nodes, the weighted score
// of each plugin and their sum. Any other status than success is an error, and so is a normalised
// score that is not between fwk.MinScore and fwk.MaxScore.
func (f *Framework) RunScorePlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (scores []fwk.NodePluginScores, status *fwk.Status) {
	defer f.observePoint(schedmetrics.Score, time.Now(), &status)
	defer timing.From(ctx).Start().End(schedmetrics.Score, "")

	run := scoring{f: f, state: state, pod: pod, nodes: nodes}
	skipped := state.GetSkipScorePlugins()
	for i := range f.score {
		if !skipped.Has(f.score[i].name) {
			run.plugins = append(run.plugins, &f.score[i])
			run.lists = append(run.lists, make(fwk.NodeScoreList, len(nodes)))
		}
	}
	if status := run.score(ctx); !status.IsSuccess() {
		return nil, status
	}
	if status := run.normalize(ctx); !status.IsSuccess() {
		return nil, status
	}
	return run.total()
}

// scoring is one run of the Score plugins.
type scoring struct {
	f       *Framework
	state   fwk.CycleState
	pod     *corev1.Pod
	nodes   []fwk.NodeInfo
	plugins []*scorePlugin
	lists   []fwk.NodeScoreList // by plugin, then node
}

// score computes the lists, nodes in parallel.
func (s *scoring) score(ctx context.Context) *fwk.Status {
	if len(s.plugins) == 0 {
		return nil
	}
	logger := newPointLogger(ctx, schedmetrics.Score)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failure := firstFailure{cancel: cancel}
	s.f.cfg.Parallelizer.Until(ctx, len(s.nodes), func(i int) {
		node := s.nodes[i]
		for p, pl := range s.plugins {
			score, status := s.f.runScore(logger.context(ctx, pl.name), pl, s.state, s.pod, node)
			if !status.IsSuccess() {
				failure.record(status)
				return
			}
			s.lists[p][i] = fwk.NodeScore{Name: node.Node().Name, Score: score}
		}
	}, schedmetrics.Score)
	return failure.of(ctx)
}

// normalize runs the plugins' NormalizeScore, plugins in parallel.
func (s *scoring) normalize(ctx context.Context) *fwk.Status {
	var normalizing []int
	for p, pl := range s.plugins {
		if pl.extensions != nil {
			normalizing = append(normalizing, p)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failure := firstFailure{cancel: cancel}
	s.f.cfg.Parallelizer.Until(ctx, len(normalizing), func(i int) {
		p := normalizing[i]
		if status := s.f.runNormalizeScore(ctx, s.plugins[p], s.state, s.pod, s.lists[p]); !status.IsSuccess() {
			failure.record(status)
		}
	}, schedmetrics.Score)
	return failure.of(ctx)
}

func (f *Framework) runScore(
	ctx context.Context, pl *scorePlugin, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) (score int64, status *fwk.Status) {
	pl.evaluations.Inc()
	score, status = callFor(ctx, f, state, schedmetrics.Score, pl.name, func() (int64, *fwk.Status) {
		return pl.plugin.Score(ctx, state, pod, node)
	})
	if !status.IsSuccess() {
		return 0, failed(schedmetrics.Score, pl.name, status)
	}
	return score, nil
}

func (f *Framework) runNormalizeScore(
	ctx context.Context, pl *scorePlugin, state fwk.CycleState, pod *corev1.Pod, scores fwk.NodeScoreList,
) *fwk.Status {
	status := f.call(ctx, state, schedmetrics.ScoreExtensionNormalize, pl.name, func() *fwk.Status {
		return pl.extensions.NormalizeScore(ctx, state, pod, scores)
	})
	if !status.IsSuccess() {
		return failed(schedmetrics.ScoreExtensionNormalize, pl.name, status)
	}
	return nil
}

// total checks the scores and returns the weighted sums.
func (s *scoring) total() ([]fwk.NodePluginScores, *fwk.Status) {
	totals := make([]fwk.NodePluginScores, len(s.nodes))
	scores := make([]fwk.PluginScore, len(s.nodes)*len(s.plugins))
	for i, node := range s.nodes {
		// The capacity is limited, so that appending an extender's score does not overwrite the
		// next node's.
		own := scores[:len(s.plugins):len(s.plugins)]
		scores = scores[len(s.plugins):]
		total := &totals[i]
		total.Name, total.Scores = node.Node().Name, own
		for p, pl := range s.plugins {
			score := s.lists[p][i].Score
			if score < fwk.MinScore || score > fwk.MaxScore {
				return nil, fwk.AsStatus(fmt.Errorf(
					"running Score plugin %q: the score of node %q is %d after normalizing, it must be from %d to %d",
					pl.name, total.Name, score, fwk.MinScore, fwk.MaxScore))
			}
			own[p] = fwk.PluginScore{Name: pl.name, Score: score * pl.weight}
			total.TotalScore += own[p].Score
		}
	}
	return totals, nil
}

// firstFailure keeps the first failure that a goroutine reports and ends the work of the others.
type firstFailure struct {
	cancel context.CancelCauseFunc
	status atomic.Pointer[fwk.Status]
}

func (f *firstFailure) record(status *fwk.Status) {
	if f.status.CompareAndSwap(nil, status) {
		f.cancel(fmt.Errorf("another one failed first: %s", status.Message()))
	}
}

// of returns the failure. If there is none but ctx has ended, part of the work was not done, which
// is an error, too.
func (f *firstFailure) of(ctx context.Context) *fwk.Status {
	if status := f.status.Load(); status != nil {
		return status
	}
	return fwk.AsStatus(context.Cause(ctx))
}
