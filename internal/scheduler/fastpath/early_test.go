// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// timely is an EarlyScorer.
type timely struct {
	score  func(node string) int64
	scored atomic.Int32
}

func (*timely) Name() string        { return "Timely" }
func (*timely) ScoresBeforeFilter() {}

func (*timely) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	state.Write("Timely", ofPod(pod.Name))
	return nil
}

type ofPod string

func (p ofPod) Clone() fwk.StateData { return p }

func (e *timely) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	node fwk.NodeInfo) (int64, *fwk.Status) {
	if data, err := state.Read("Timely"); err != nil || data != ofPod(pod.Name) {
		return 0, fwk.NewStatus(fwk.Error, "PreScore was not run for the pod")
	}
	e.scored.Add(1)
	return e.score(node.Node().Name), nil
}

func (*timely) ScoreExtensions() fwk.ScoreExtensions { return nil }

// newEarlyScene is a restScene whose foreign plugin, if any, only filters, with an EarlyScorer.
func newEarlyScene(t *testing.T, nodes int, f *foreign, e *timely) *restScene {
	s := &restScene{scene: newScene(t, nodes, 0), foreign: f}
	plugins := &framework.Plugins{
		Filter: []fwk.FilterPlugin{s.plugin}, PreScore: []fwk.PreScorePlugin{e},
		Score: []fwk.ScorePlugin{s.plugin, e}, ScoreWeights: map[string]int64{"Scored": 2, "Timely": 3},
	}
	if f != nil {
		plugins.PreFilter, plugins.Filter = []fwk.PreFilterPlugin{f}, append(plugins.Filter, f)
	} else {
		s.foreign = &foreign{}
	}
	s.plan = planOf(framework.Config{ProfileName: "mine", Snapshot: s.snapshot,
		Parallelizer: framework.NewParallelizer(4), Plugins: plugins})
	return s
}

func TestEarlyScoresOrderTheNodesToAsk(t *testing.T) {
	const nodes = 100
	e := &timely{score: scores(map[string]int64{"n7": 90, "n8": 80, "n9": 50})}
	s := newEarlyScene(t, nodes, &foreign{filter: refuse("n7")}, e)
	s.plugin.score = scores(map[string]int64{"n9": 50})
	want := map[string]int64{"n8": 3 * 80, "n9": 3*50 + 2*50}
	for name, draw := range map[string]Draw{"all nodes": nil, "the best first": first} {
		e.scored.Store(0)
		fit, ok := s.decide(draw).Fit()
		if !ok || !slices.Equal(fit.Names(), []string{"n9"}) || fit.Total() != want["n9"] {
			t.Fatalf("%s: chose %v with %d", name, fit.Names(), fit.Total())
		}
		asked, scored := nodes, nodes-1 // all nodes, then those that remain
		if draw != nil {
			asked, scored = 1+16, nodes // n7 is the best, and refuses
		}
		if len(s.foreign.filtered) != asked || int(e.scored.Load()) != scored {
			t.Errorf("%s: Filter was called for %d nodes, Score for %d, want %d and %d", name,
				len(s.foreign.filtered), e.scored.Load(), asked, scored)
		}
		top, err := fit.Top(s.ctx, 2)
		if err != nil || len(top) != 2 || top[0].Name != "n9" ||
			top[1].Name != "n8" || top[1].TotalScore != want["n8"] {
			t.Fatalf("%s: the first are %v (%v)", name, top, err)
		}
		byPlugin := map[string]int64{}
		for _, score := range top[0].Scores {
			byPlugin[score.Name] = score.Score
		}
		if want := map[string]int64{"Scored": 100, "Timely": 150}; !maps.Equal(byPlugin, want) {
			t.Errorf("%s: the scores are %v, want %v", name, byPlugin, want)
		}
		if totals, err := fit.Totals(s.ctx); err != nil || totals["n8"] != want["n8"] || totals["n9"] != want["n9"] {
			t.Errorf("%s: the totals are %v (%v)", name, totals, err)
		}
	}
}

// TestEarlyScoresWithoutOtherPlugins: no plugin filters the nodes for the pod, and a pod that fits
// nowhere is explained as without early scores.
func TestEarlyScoresWithoutOtherPlugins(t *testing.T) {
	best := "n3"
	e := &timely{score: func(node string) int64 {
		if node == best {
			return 1
		}
		return 0
	}}
	s := newEarlyScene(t, 50, nil, e)
	for _, best = range []string{"n3", "n41"} {
		fit, ok := s.decide(first).Fit()
		if !ok || !slices.Equal(fit.Names(), []string{best}) || fit.Total() != 3 {
			t.Errorf("chose %v, want %s: its score is that of the time", fit.Names(), best)
		}
		if placement, ok := fit.Take(s.ctx, 0); !ok || placement.Evaluated != 50 || placement.Uncached != Devices {
			t.Errorf("got %+v", placement)
		}
	}
}

func TestEarlyScoresThatFail(t *testing.T) {
	for name, f := range map[string]*foreign{"alone": nil, "the best first": {}} {
		s := newEarlyScene(t, 20, f, &timely{score: scores(map[string]int64{"n3": 101})})
		if s.decide(first); s.attempt.Reason() != Failed {
			t.Errorf("%s: the reason is %q", name, s.attempt.Reason())
		}
		if state, ok := s.attempt.State().(*schedframework.CycleState); ok && state.GetSkipScorePlugins().Len() > 0 {
			t.Errorf("%s: the state is not as good as new", name)
		}
	}
}

// TestEarlyScorersHaveNoOtherPoints: plugins that filter or normalize are of unknown kind.
func TestEarlyScorersHaveNoOtherPoints(t *testing.T) {
	for name, test := range map[string]struct {
		plugin fwk.Plugin
		want   kind
	}{
		"scores":     {&timely{}, early},
		"filters":    {filtering{}, opaque},
		"normalizes": {normalizing{}, opaque},
	} {
		if got := kindOf(test.plugin); got != test.want {
			t.Errorf("%s: the kind is %d, want %d", name, got, test.want)
		}
	}
}

type filtering struct{ *timely }

func (filtering) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

type normalizing struct{ *timely }

func (normalizing) ScoreExtensions() fwk.ScoreExtensions { return &foreign{} }
