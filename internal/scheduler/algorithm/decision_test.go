// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
)

// decisions decides pods in a world that changes at random, and returns the chosen nodes. All draws
// follow from the seed. If check is true, it checks the scores of the best nodes after each
// decision.
func decisions(t *testing.T, seed uint64, even, check bool) []string {
	t.Helper()
	w := newWorld(t, seed, 0)
	w.even, w.bare = even, even
	w.parallelism = 1
	w.ours.cfg.IntN = rand.New(rand.NewPCG(seed, 1)).IntN
	w.populate(100)
	for range 10 {
		w.templates = append(w.templates, w.template())
	}
	w.build()
	beside := New(Config{Snapshot: w.snapshot, Engine: fastpath.NewBeside(w.snapshot, 0)})
	var chosen []string
	for i := range 400 {
		for w.chance(40) {
			w.disturb()
		}
		pod, p := w.another(), pick(w.generator, w.profiles)
		w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
		got, err := w.ours.Decide(w.ctx, p, schedframework.NewCycleState(), pod)
		chosen = append(chosen, got.SuggestedHost)
		if err != nil {
			continue
		}
		if check {
			scalar := New(Config{Snapshot: w.snapshot})
			want, err := scalar.Evaluate(w.ctx, p, schedframework.NewCycleState(), pod)
			w.must(err)
			where := fmt.Sprintf("seed %d, pod %d", seed, i)
			checkScores(w, where, got, want)
			checkTop(w, where, got, want)
			p.EveryNode = true
			again, err := beside.Decide(w.ctx, p, schedframework.NewCycleState(), pod)
			w.must(err)
			checkScores(w, where+", decided beside it", again, want)
		}
		w.place(pod, got.SuggestedHost, got.Class)
	}
	return chosen
}

// checkScores checks which nodes fit in a decision, and the scores of some of them, against a
// decision on the scalar path.
func checkScores(w *world, where string, got Decision, want Evaluation) {
	w.t.Helper()
	if got.FeasibleNodes != want.FeasibleNodes || got.TiedNodes != want.TiedNodes || got.Total != want.Total {
		w.t.Fatalf("%s: %+v, want %+v", where, got.Result, want.Result)
	}
	fit := sets.New[string]()
	for i := range want.Scores {
		fit.Insert(want.Scores[i].Name)
	}
	nodes, err := w.snapshot.NodeInfos().List()
	w.must(err)
	for _, node := range nodes {
		if name := node.Node().Name; got.Fits(name) != fit.Has(name) {
			w.t.Fatalf("%s: the pod fits %s: %v, want %v", where, name, got.Fits(name), fit.Has(name))
		}
	}
	one, other := want.Scores[0], want.Scores[len(want.Scores)/2]
	scores, err := got.Scores(w.ctx, one.Name, "gone", other.Name)
	w.must(err)
	wanted := []fwk.NodePluginScores{one, other}
	if got.FeasibleNodes == 1 {
		wanted = []fwk.NodePluginScores{{Name: one.Name}}
		scores = scores[:1]
	}
	for i := range wanted {
		if scores[i].Name != wanted[i].Name || scores[i].TotalScore != wanted[i].TotalScore ||
			!maps.Equal(byPlugin(&scores[i]), byPlugin(&wanted[i])) {
			w.t.Fatalf("%s: node %d is %v, want %v", where, i, scores[i], wanted[i])
		}
	}
}

// checkTop checks a decision, and the scores of its best nodes, against a decision on the
// scalar path.
func checkTop(w *world, where string, got Decision, want Evaluation) {
	w.t.Helper()
	const n = 5
	for i := range want.Scores {
		node := &want.Scores[i]
		if best := got.FeasibleNodes == 1 || node.TotalScore == want.Total; got.IsBest(node.Name) != best {
			w.t.Fatalf("%s: %s with %d is best: %v; the best nodes have %d", where, node.Name, node.TotalScore, !best,
				want.Total)
		}
	}
	top, err := got.Top(w.ctx, n)
	w.must(err)
	if got.FeasibleNodes == 1 {
		if len(top) != 1 || top[0].Name != got.SuggestedHost || top[0].Scores != nil {
			w.t.Fatalf("%s: the only node has %v", where, top)
		}
		return
	}
	first := got.SuggestedHost
	slices.SortFunc(want.Scores, func(a, b fwk.NodePluginScores) int {
		if (a.Name == first) != (b.Name == first) {
			return map[bool]int{true: -1, false: 1}[a.Name == first]
		}
		return cmp.Or(cmp.Compare(b.TotalScore, a.TotalScore), cmp.Compare(a.Name, b.Name))
	})
	if len(top) != min(n, len(want.Scores)) {
		w.t.Fatalf("%s: %d nodes, want %d", where, len(top), min(n, len(want.Scores)))
	}
	for i := range top {
		if want := &want.Scores[i]; top[i].Name != want.Name || !maps.Equal(byPlugin(&top[i]), byPlugin(want)) {
			w.t.Fatalf("%s: node %d is %v, want %v", where, i, top[i], *want)
		}
	}
	w.seen["with scores"]++
}

func TestTopHasTheScoresOfTheScalarPathAndChangesNothing(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			even := seed%2 == 1
			with, without := decisions(t, seed, even, true), decisions(t, seed, even, false)
			if !slices.Equal(with, without) {
				t.Errorf("the decisions differ: with the scores\n%v, without\n%v", with, without)
			}
		})
	}
}

func TestTopOfAPodThatFitsNowhereIsEmpty(t *testing.T) {
	snapshot := cluster(t, 3)
	s := New(Config{Snapshot: snapshot})
	placed, err := s.Decide(t.Context(), profileOf(snapshot, &fake{name: "a", score: func(string) int64 { return 1 }}),
		schedframework.NewCycleState(), makePod(""))
	if err != nil {
		t.Fatal(err)
	}
	if top, err := placed.Top(t.Context(), 2); err != nil || len(top) != 2 {
		t.Errorf("the best nodes are %v, %v", top, err)
	}
	unfit, err := s.Decide(t.Context(), profileOf(snapshot, &fake{name: "a", filter: onlyOn()}),
		schedframework.NewCycleState(), makePod(""))
	if err == nil {
		t.Fatal("the pod fits")
	}
	if top, err := unfit.Top(t.Context(), 2); err != nil || len(top) != 0 || unfit.IsBest("n0") {
		t.Errorf("the best nodes are %v, %v", top, err)
	}
}

// TestTopKeepsFewScores is about the memory of samples: they are kept for long, and the scores of
// all nodes are one piece of memory.
func TestTopKeepsFewScores(t *testing.T) {
	snapshot := cluster(t, 10)
	s := New(Config{Snapshot: snapshot})
	decision, err := s.Decide(t.Context(),
		profileOf(snapshot, &fake{name: "a", score: func(string) int64 { return 1 }}), schedframework.NewCycleState(),
		makePod(""))
	if err != nil {
		t.Fatal(err)
	}
	top, err := decision.Top(t.Context(), 3)
	if err != nil || len(top) != 3 {
		t.Fatalf("the best nodes are %v, %v", top, err)
	}
	for i := range decision.scores {
		clear(decision.scores[i].Scores)
	}
	for _, node := range top {
		if len(node.Scores) != 1 || node.Scores[0].Name != "a" {
			t.Errorf("the scores of %s are not copied: %v", node.Name, node.Scores)
		}
	}
}

func TestHighest(t *testing.T) {
	var scores []fwk.NodePluginScores
	for i, total := range []int64{3, 9, 7, 9, 1, 7} {
		scores = append(scores, fwk.NodePluginScores{Name: fmt.Sprint("n", i), TotalScore: total})
	}
	for _, test := range []struct {
		first string
		n     int
		want  []string
	}{
		{"n1", 3, []string{"n1", "n3", "n2"}},
		{"n3", 2, []string{"n3", "n1"}},
		{"n4", 4, []string{"n4", "n1", "n3", "n2"}},
		{"gone", 9, []string{"n1", "n3", "n2", "n5", "n0", "n4"}},
		{"n4", 1, []string{"n4"}},
	} {
		var got []string
		for _, node := range Highest(scores, test.first, test.n) {
			got = append(got, node.Name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s first: the highest %d are %v, want %v", test.first, test.n, got, test.want)
		}
	}
}
