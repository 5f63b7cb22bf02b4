// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

func TestScheduleChoosesTheBestNode(t *testing.T) {
	snapshot := cluster(t, 4)
	p := profileOf(snapshot,
		&fake{name: "a", filter: onlyOn("n0", "n1", "n3"), score: func(node string) int64 {
			return map[string]int64{"n0": 10, "n1": 50, "n2": 100, "n3": 40}[node]
		}},
		&fake{name: "b", score: func(node string) int64 { return map[string]int64{"n3": 11}[node] }},
	)
	got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	want := Result{SuggestedHost: "n3", EvaluatedNodes: 4, FeasibleNodes: 3, Total: 51, TiedNodes: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestScheduleDoesNotScoreTheOnlyNode(t *testing.T) {
	snapshot := cluster(t, 3)
	p := profileOf(snapshot, &fake{name: "a", filter: onlyOn("n1"),
		preScore: func() *fwk.Status { return refuse("not reached") }})
	got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	if want := (Result{SuggestedHost: "n1", EvaluatedNodes: 3, FeasibleNodes: 1, TiedNodes: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestScheduleChoosesAmongEqualsAtRandom(t *testing.T) {
	snapshot := cluster(t, 5)
	best := sets.New("n1", "n2", "n4")
	p := profileOf(snapshot, &fake{name: "a", score: func(node string) int64 {
		if best.Has(node) {
			return 7
		}
		return 3
	}})
	t.Run("by the injected source", func(t *testing.T) {
		for draw, want := range []string{"n1", "n2", "n4"} {
			s := New(Config{Snapshot: snapshot, IntN: func(n int) int {
				if n != 3 {
					t.Errorf("drawn among %d nodes", n)
				}
				return draw
			}})
			// Every decision starts its search at another node; this one at n0.
			if got := mustSchedule(t, s, p, makePod("")).SuggestedHost; got != want {
				t.Errorf("draw %d gave %s, want %s", draw, got, want)
			}
		}
	})
	t.Run("with equal chances", func(t *testing.T) {
		s, counts := New(Config{Snapshot: snapshot}), map[string]int{}
		for range 3000 {
			counts[mustSchedule(t, s, p, makePod("")).SuggestedHost]++
		}
		for name, n := range counts {
			// Eight standard deviations from 1000.
			if !best.Has(name) || n < 800 || n > 1200 {
				t.Errorf("%s was chosen %d times of 3000", name, n)
			}
		}
	})
	t.Run("no random number is drawn if one is best", func(t *testing.T) {
		s := New(Config{Snapshot: snapshot, IntN: func(int) int { panic("not reached") }})
		p := profileOf(snapshot, &fake{name: "a", score: func(node string) int64 { return int64(node[1]) % 10 }})
		mustSchedule(t, s, p, makePod(""))
	})
}

func TestScheduleWithoutNodes(t *testing.T) {
	snapshot := cluster(t, 0)
	_, err := schedule(t, New(Config{Snapshot: snapshot}), profileOf(snapshot), makePod(""))
	if !errors.Is(err, ErrNoNodesAvailable) || err.Error() != "no nodes available to schedule pods" {
		t.Errorf("got %v", err)
	}
}

func TestScheduleExplainsFailure(t *testing.T) {
	for _, test := range []struct {
		name    string
		a, b    *fake
		message string
		plugins []string
		pending []string
		absent  fwk.Code
	}{
		{
			name: "node by node",
			a:    &fake{filter: onlyOn("n0", "n1")},
			b: &fake{filter: func(context.Context, string) *fwk.Status {
				return fwk.NewStatus(fwk.Pending, "too busy", "too hot")
			}},
			message: "0/4 nodes are available: 2 not this one, 2 too busy, 2 too hot.",
			plugins: []string{"a", "b"}, pending: []string{"b"}, absent: fwk.UnschedulableAndUnresolvable,
		}, {
			name:    "for all nodes at once",
			a:       &fake{preFilter: func() (*fwk.PreFilterResult, *fwk.Status) { return nil, refuse("not today") }},
			b:       &fake{},
			message: "0/4 nodes are available: not today.",
			plugins: []string{"a"}, absent: fwk.Unschedulable,
		}, {
			name: "for the nodes that PreFilter left out and the others",
			a: &fake{preFilter: func() (*fwk.PreFilterResult, *fwk.Status) {
				return &fwk.PreFilterResult{NodeNames: sets.New("n1", "gone")}, nil
			}},
			b:       &fake{filter: onlyOn("n0")},
			message: "0/4 nodes are available: 1 not this one, 3 node(s) didn't satisfy plugin(s) [a].",
			plugins: []string{"a", "b"}, absent: fwk.UnschedulableAndUnresolvable,
		}, {
			name: "if PreFilter leaves only nodes that are gone",
			a: &fake{preFilter: func() (*fwk.PreFilterResult, *fwk.Status) {
				return &fwk.PreFilterResult{NodeNames: sets.New("gone")}, nil
			}},
			b:       &fake{},
			message: "0/4 nodes are available: 4 node(s) didn't satisfy plugin(s) [a].",
			plugins: []string{"a"}, absent: fwk.UnschedulableAndUnresolvable,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := cluster(t, 4)
			test.a.name, test.b.name = "a", "b"
			_, err := schedule(t, New(Config{Snapshot: snapshot}), profileOf(snapshot, test.a, test.b), makePod(""))
			var fit *schedframework.FitError
			if !errors.As(err, &fit) {
				t.Fatalf("got %v", err)
			}
			if fit.Error() != test.message {
				t.Errorf("got  %s\nwant %s", fit, test.message)
			}
			if diff := cmp.Diff(sets.New(test.plugins...), fit.Diagnosis.UnschedulablePlugins); diff != "" {
				t.Errorf("unschedulable plugins (-want +got):\n%s", diff)
			}
			if got := fit.Diagnosis.PendingPlugins; !got.Equal(sets.New(test.pending...)) {
				t.Errorf("pending plugins: %v", got)
			}
			if got := fit.Diagnosis.NodeToStatus.AbsentNodesStatus().Code(); got != test.absent {
				t.Errorf("nodes that were not looked at are %s", got)
			}
		})
	}
}

func TestScheduleFails(t *testing.T) {
	broken := func() *fwk.Status { return fwk.AsStatus(errors.New("broken")) }
	for _, test := range []struct {
		name string
		fake *fake
		want string
	}{
		{"PreFilter", &fake{preFilter: func() (*fwk.PreFilterResult, *fwk.Status) { return nil, broken() }},
			`running PreFilter plugin "a": broken`},
		{"Filter", &fake{filter: func(context.Context, string) *fwk.Status { return broken() }},
			`running "a" filter plugin: broken`},
		{"Filter of one of many nodes", &fake{filter: func(_ context.Context, node string) *fwk.Status {
			if node == "n1" {
				return broken()
			}
			return nil
		}}, `running "a" filter plugin: broken`},
		{"PreScore", &fake{preScore: broken}, `running PreScore plugin "a": broken`},
		{"Score", &fake{score: func(string) int64 { return 101 }},
			`running Score plugin "a": the score of node "n0" is 101 after normalizing, it must be from 0 to 100`},
		{"a panic in Filter", &fake{filter: func(context.Context, string) *fwk.Status { panic("boom") }},
			`plugin "a" panicked at Filter: boom`},
		{"a panic in Score", &fake{score: func(string) int64 { panic("boom") }},
			`plugin "a" panicked at Score: boom`},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := cluster(t, 4)
			test.fake.name = "a"
			_, err := schedule(t, New(Config{Snapshot: snapshot}), profileOf(snapshot, test.fake), makePod(""))
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestCanceledScheduleReportsNoNodes(t *testing.T) {
	snapshot := cluster(t, 50)
	ctx, cancel := context.WithCancelCause(quiet(t))
	p := profileOf(snapshot, &fake{name: "a", filter: func(context.Context, string) *fwk.Status {
		cancel(errors.New("shutting down"))
		return refuse("not this one")
	}})
	_, err := New(Config{Snapshot: snapshot}).Decide(ctx, p, schedframework.NewCycleState(), makePod(""))
	if err == nil || err.Error() != "shutting down" {
		t.Errorf("got %v", err)
	}
}

func TestNominatedNode(t *testing.T) {
	snapshot := cluster(t, 4)
	t.Run("is taken if it fits, whatever the others are like", func(t *testing.T) {
		var looked []string
		p := profileOf(snapshot, &fake{
			name:   "a",
			filter: func(_ context.Context, node string) *fwk.Status { looked = append(looked, node); return nil },
			score:  func(string) int64 { panic("not reached") },
		})
		got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod("n2"))
		want := Result{SuggestedHost: "n2", EvaluatedNodes: 1, FeasibleNodes: 1, TiedNodes: 1, Partial: true}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if diff := cmp.Diff([]string{"n2"}, looked); diff != "" {
			t.Errorf("nodes that were looked at (-want +got):\n%s", diff)
		}
	})
	for name, test := range map[string]struct {
		node  string
		first *fwk.Status // of the nominated node when it is filtered first
	}{
		"does not matter if it does not fit":     {"n2", refuse("full")},
		"does not matter if it is gone":          {"gone", nil},
		"does not matter if evaluating it fails": {"n2", fwk.AsStatus(errors.New("broken"))},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			p := profileOf(snapshot, &fake{name: "a", filter: func(_ context.Context, node string) *fwk.Status {
				if calls++; calls == 1 && test.node == "n2" {
					return test.first
				}
				return onlyOn("n0", "n1")(nil, node)
			}})
			got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod(test.node))
			if want := (Result{SuggestedHost: got.SuggestedHost, EvaluatedNodes: 4, FeasibleNodes: 2,
				TiedNodes: 2}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestPreFilterNodes(t *testing.T) {
	snapshot := cluster(t, 50)
	var looked []string
	p := profileOf(snapshot, &fake{
		name: "a",
		preFilter: func() (*fwk.PreFilterResult, *fwk.Status) {
			return &fwk.PreFilterResult{NodeNames: sets.New("n7", "n3", "gone")}, nil
		},
		filter: func(_ context.Context, node string) *fwk.Status { looked = append(looked, node); return nil },
		score:  func(node string) int64 { return map[string]int64{"n7": 1}[node] },
	})
	got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	if want := (Result{SuggestedHost: "n7", EvaluatedNodes: 2, FeasibleNodes: 2, Total: 1, TiedNodes: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if diff := cmp.Diff([]string{"n3", "n7"}, looked); diff != "" {
		t.Errorf("nodes that were looked at (-want +got):\n%s", diff)
	}
}

func TestFilterDurationIsThatOfAllNodes(t *testing.T) {
	schedmetrics.FrameworkExtensionPointDuration.Reset()
	snapshot := cluster(t, 10)
	s, ok := New(Config{Snapshot: snapshot}), profileOf(snapshot, &fake{name: "a"})
	mustSchedule(t, s, ok, makePod(""))
	broken := profileOf(snapshot, &fake{name: "a", filter: func(context.Context, string) *fwk.Status { panic("boom") }})
	if _, err := schedule(t, s, broken, makePod("")); err == nil {
		t.Error("a filter that panics went unnoticed")
	}
	for _, code := range []string{"Success", "Error"} {
		n, err := testutil.GetHistogramMetricCount(
			schedmetrics.FrameworkExtensionPointDuration.WithLabelValues("Filter", code, "test"))
		if err != nil || n != 1 {
			t.Errorf("Filter with status %s was observed %d times (%v)", code, n, err)
		}
	}
}
