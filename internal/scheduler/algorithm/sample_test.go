// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

func TestNumFeasibleNodesToFind(t *testing.T) {
	for _, test := range []struct {
		percentage int32
		nodes      int
		want       int
	}{
		{0, 10000, 10000}, // every node, where kube-scheduler would take a sample
		{100, 10000, 10000},
		{0, 20, 20},
		{40, 99, 99},
		{40, 100, 100},
		{40, 240, 100},
		{40, 1000, 400},
		{5, 6000, 300},
		{1, 5000, 100},
		{50, 1001, 500},
	} {
		p := profileOf(cluster(t, 0), &fake{name: "a"})
		p.PercentageOfNodesToScore = test.percentage
		if got := p.numFeasibleNodesToFind(test.nodes); got != test.want {
			t.Errorf("%d%% of %d nodes: got %d, want %d", test.percentage, test.nodes, got, test.want)
		}
	}
	t.Run("one is enough if nothing scores", func(t *testing.T) {
		filterOnly := framework.New(
			framework.Config{Plugins: &framework.Plugins{Filter: []fwk.FilterPlugin{&fake{name: "a"}}}})
		for _, test := range []struct {
			name     string
			extender *tf.FakeExtender
			want     int
		}{
			{"an extender without filter and score", &tf.FakeExtender{}, 1},
			{"an extender may still reject nodes",
				&tf.FakeExtender{Predicates: []tf.FitPredicate{tf.TruePredicateExtender}}, 50},
			{"an extender scores",
				&tf.FakeExtender{Prioritizers: []tf.PriorityConfig{{Function: tf.Node1PrioritizerExtender, Weight: 1}}},
				50},
		} {
			p := Params{Framework: filterOnly, Extenders: []fwk.Extender{test.extender}}
			if got := p.numFeasibleNodesToFind(50); got != test.want {
				t.Errorf("%s: got %d, want %d", test.name, got, test.want)
			}
		}
	})
}

func TestSamplesRotate(t *testing.T) {
	snapshot := cluster(t, 250)
	looked := map[string]int{}
	s := New(Config{Snapshot: snapshot})
	p := profileOf(snapshot, &fake{name: "a", filter: func(_ context.Context, node string) *fwk.Status {
		looked[node]++
		return nil
	}})
	p.PercentageOfNodesToScore = 40 // 100 nodes
	for range 5 {
		got := mustSchedule(t, s, p, makePod(""))
		if got.FeasibleNodes != 100 || got.EvaluatedNodes != 100 {
			t.Fatalf("got %+v", got)
		}
	}
	// Twice around, and one node too many per decision.
	for _, node := range snapshot.nodes {
		if n := looked[node.Node().Name]; n < 2 || n > 3 {
			t.Errorf("%s was looked at %d times", node.Node().Name, n)
		}
	}
}

func TestFiltersAreCanceledWhenEnoughNodesAreFound(t *testing.T) {
	snapshot := cluster(t, 400)
	var found atomic.Int32
	p := profileOf(snapshot, &fake{name: "a", filter: func(ctx context.Context, _ string) *fwk.Status {
		if found.Add(1) <= 200 {
			return nil
		}
		<-ctx.Done() // ends only because of the others
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, context.Cause(ctx).Error())
	}})
	p.PercentageOfNodesToScore = 25
	p.Framework = framework.New(framework.Config{
		Plugins: p.Framework.Plugins(), Snapshot: snapshot, Parallelizer: framework.NewParallelizer(8),
	})
	got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	if got.FeasibleNodes != 100 {
		t.Errorf("got %+v", got)
	}
}

// TestAReproducibleSearchFindsTheSameNodes: which goroutine is faster makes no difference.
func TestAReproducibleSearchFindsTheSameNodes(t *testing.T) {
	snapshot := cluster(t, 300)
	decide := func() (hosts []string) {
		s := New(Config{Snapshot: snapshot, Reproducible: true, IntN: func(int) int { return 0 }})
		pl := &fake{name: "a", filter: func(context.Context, string) *fwk.Status { runtime.Gosched(); return nil },
			score: func(string) int64 { return 1 }}
		p := Params{PercentageOfNodesToScore: 40, Framework: framework.New(framework.Config{
			ProfileName: "test", Snapshot: snapshot, Parallelizer: framework.NewParallelizer(16),
			Plugins: &framework.Plugins{Filter: []fwk.FilterPlugin{pl}, Score: []fwk.ScorePlugin{pl},
				ScoreWeights: map[string]int64{"a": 1}},
		})}
		for range 5 {
			result := mustSchedule(t, s, p, makePod(""))
			if result.FeasibleNodes != 120 {
				t.Errorf("found %d nodes", result.FeasibleNodes)
			}
			hosts = append(hosts, result.SuggestedHost)
		}
		return hosts
	}
	first := decide()
	for range 20 {
		if diff := cmp.Diff(first, decide()); diff != "" {
			t.Fatal(diff)
		}
	}
}
