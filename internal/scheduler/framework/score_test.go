// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestRunPreScorePlugins(t *testing.T) {
	for _, test := range []struct {
		name    string
		a, b    *fwk.Status
		want    string
		skipped sets.Set[string]
	}{
		{"success", nil, nil, "Success", sets.New[string]()},
		{"a plugin that skips is left out of Score", fwk.NewStatus(fwk.Skip), nil, "Success", sets.New("a")},
		{"an error ends it", fwk.AsStatus(errors.New("broken")), fwk.NewStatus(fwk.Skip),
			`Error: running PreScore plugin "a": broken`, sets.New[string]()},
		{"a rejection is an error", fwk.NewStatus(fwk.Skip), unschedulable("no"),
			`Error: running PreScore plugin "b": no`, sets.New("a")},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newTestFramework(&Plugins{PreScore: []fwk.PreScorePlugin{
				&preScore{named: "a", run: func() *fwk.Status { return test.a }},
				&preScore{named: "b", run: func() *fwk.Status { return test.b }},
			}})
			state := newState()
			status := f.RunPreScorePlugins(quiet(t), state, makePod("p"), makeNodes("n1", "n2"))
			expect(t, "status", describe(status), test.want)
			if diff := cmp.Diff(test.skipped, state.GetSkipScorePlugins()); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}

func fixed(scores map[string]int64) func(string) (int64, *fwk.Status) {
	return func(node string) (int64, *fwk.Status) { return scores[node], nil }
}

func TestRunScorePlugins(t *testing.T) {
	double := func(list fwk.NodeScoreList) *fwk.Status {
		for i := range list {
			list[i].Score *= 2
		}
		return nil
	}
	halves := map[string]int64{"n1": 10, "n2": 50}
	f := newTestFramework(&Plugins{
		Score: []fwk.ScorePlugin{
			&score{named: "plain", run: fixed(map[string]int64{"n1": 100, "n2": 0})},
			&score{named: "normalised", run: fixed(halves), normalize: double},
			&score{named: "skipped", run: func(string) (int64, *fwk.Status) { panic("not reached") }},
		},
		ScoreWeights: map[string]int64{"plain": 2, "normalised": 3, "skipped": 7},
	})
	state := newState()
	state.SetSkipScorePlugins(sets.New("skipped"))
	scores, status := f.RunScorePlugins(quiet(t), state, makePod("p"), makeNodes("n1", "n2"))
	expect(t, "status", describe(status), "Success")
	want := []fwk.NodePluginScores{
		{Name: "n1", TotalScore: 260,
			Scores: []fwk.PluginScore{{Name: "plain", Score: 200}, {Name: "normalised", Score: 60}}},
		{Name: "n2", TotalScore: 300,
			Scores: []fwk.PluginScore{{Name: "plain", Score: 0}, {Name: "normalised", Score: 300}}},
	}
	if diff := cmp.Diff(want, scores); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	scores[0].Scores = append(scores[0].Scores, fwk.PluginScore{Name: "extender", Score: 1})
	expect(t, "the next node's scores after an append", scores[1].Scores[0].Name, "plain")
}

func TestRunScorePluginsWithoutPlugins(t *testing.T) {
	scores, status := newTestFramework(&Plugins{}).RunScorePlugins(quiet(t), newState(), makePod("p"), makeNodes("n1"))
	expect(t, "status", describe(status), "Success")
	if diff := cmp.Diff([]fwk.NodePluginScores{{Name: "n1", Scores: []fwk.PluginScore{}}}, scores); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func TestRunScorePluginsFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		plugin *score
		want   string
	}{
		{
			"a plugin fails",
			&score{run: func(string) (int64, *fwk.Status) { return 0, fwk.AsStatus(errors.New("broken")) }},
			`Error: running Score plugins: plugin "s" failed with: broken`,
		}, {
			"a plugin rejects the pod, which is an error",
			&score{run: func(string) (int64, *fwk.Status) { return 0, unschedulable("no") }},
			`Error: running Score plugins: plugin "s" failed with: no`,
		}, {
			"normalizing fails",
			&score{run: fixed(nil),
				normalize: func(fwk.NodeScoreList) *fwk.Status { return fwk.AsStatus(errors.New("broken")) }},
			`Error: running Normalize on Score plugins: plugin "s" failed with: broken`,
		}, {
			"a score is above the range",
			&score{run: fixed(map[string]int64{"n2": 101})},
			`Error: running Score plugin "s": the score of node "n2" is 101 after normalizing, it must be from 0 to ` +
				`100`,
		}, {
			"a score is below the range",
			&score{run: fixed(map[string]int64{"n1": -1})},
			`Error: running Score plugin "s": the score of node "n1" is -1 after normalizing, it must be from 0 to 100`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.plugin.named = "s"
			f := newTestFramework(&Plugins{
				Score: []fwk.ScorePlugin{test.plugin}, ScoreWeights: map[string]int64{"s": 1},
			})
			scores, status := f.RunScorePlugins(quiet(t), newState(), makePod("p"), makeNodes("n1", "n2"))
			expect(t, "status", describe(status), test.want)
			if scores != nil {
				t.Errorf("scores in spite of the failure: %v", scores)
			}
		})
	}
}

func TestScoreOutOfRangeIsAllowedIfNormalized(t *testing.T) {
	f := newTestFramework(&Plugins{
		Score: []fwk.ScorePlugin{&score{
			named: "s", run: fixed(map[string]int64{"n1": 5000}),
			normalize: func(list fwk.NodeScoreList) *fwk.Status { list[0].Score /= 100; return nil },
		}},
		ScoreWeights: map[string]int64{"s": 1},
	})
	scores, status := f.RunScorePlugins(quiet(t), newState(), makePod("p"), makeNodes("n1"))
	expect(t, "status", describe(status), "Success")
	expect(t, "total", scores[0].TotalScore, 50)
}

func TestRunScorePluginsDoesNotScoreHalfTheNodes(t *testing.T) {
	ctx, cancel := context.WithCancelCause(quiet(t))
	cancel(errors.New("shutting down"))
	f := newTestFramework(&Plugins{
		Score: []fwk.ScorePlugin{&score{named: "s", run: fixed(nil)}}, ScoreWeights: map[string]int64{"s": 1},
	})
	_, status := f.RunScorePlugins(ctx, newState(), makePod("p"), makeNodes("n1", "n2", "n3"))
	expect(t, "status", describe(status), "Error: shutting down")
}
