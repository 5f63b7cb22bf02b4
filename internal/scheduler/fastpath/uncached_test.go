// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// foreign is a plugin that does not declare what it depends on. Without functions it accepts every
// node, and scores 0.
type foreign struct {
	preFilter func() (*fwk.PreFilterResult, *fwk.Status)
	filter    func(node string) *fwk.Status
	score     func(node string) int64
	normalize func(scores fwk.NodeScoreList) *fwk.Status

	mu sync.Mutex
	// The calls: for how many pods, about which nodes, and the nodes that PreScore and Score were
	// called with.
	preFilters              int
	filtered, given, scored []string
}

func (*foreign) Name() string { return "Foreign" }

// found is the state that the plugin leaves: the nodes that it has accepted.
type found struct{ nodes sync.Map }

func (f *found) Clone() fwk.StateData { return f }

const foundKey fwk.StateKey = "Foreign"

func (f *foreign) PreFilter(_ context.Context, state fwk.CycleState, _ *corev1.Pod,
	_ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	f.preFilters++
	state.Write(foundKey, &found{})
	if f.preFilter == nil {
		return nil, nil
	}
	return f.preFilter()
}

func (*foreign) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (f *foreign) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	name := node.Node().Name
	f.mu.Lock()
	f.filtered = append(f.filtered, name)
	f.mu.Unlock()
	if f.filter != nil {
		if status := f.filter(name); status != nil {
			return status
		}
	}
	data, err := state.Read(foundKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	data.(*found).nodes.Store(name, true)
	return nil
}

func (f *foreign) PreScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	for _, node := range nodes {
		f.given = append(f.given, node.Node().Name)
	}
	if f.score == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

func (f *foreign) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scored = append(f.scored, node.Node().Name)
	return f.score(node.Node().Name), nil
}

func (f *foreign) ScoreExtensions() fwk.ScoreExtensions {
	if f.normalize == nil {
		return nil
	}
	return f
}

func (f *foreign) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	return f.normalize(scores)
}

// restScene is a scene whose profile has a node-local plugin and a foreign one.
type restScene struct {
	*scene
	foreign *foreign
	attempt Attempt
	state   *schedframework.CycleState
}

func newRestScene(t *testing.T, nodes int, f *foreign) *restScene {
	s := &restScene{scene: newScene(t, nodes, 0), foreign: f}
	s.plan = planOf(framework.Config{
		ProfileName: "mine", Snapshot: s.snapshot, Parallelizer: framework.NewParallelizer(2),
		Plugins: &framework.Plugins{
			PreFilter: []fwk.PreFilterPlugin{f}, Filter: []fwk.FilterPlugin{s.plugin, f},
			PreScore: []fwk.PreScorePlugin{f},
			Score:    []fwk.ScorePlugin{s.plugin, f}, ScoreWeights: map[string]int64{"Scored": 2, "Foreign": 3},
		},
	})
	return s
}

func (s *restScene) expect(want Reason) decided {
	s.Helper()
	if err := s.cache.UpdateSnapshot(logr.Discard(), s.snapshot); err != nil {
		s.Fatal(err)
	}
	s.foreign.preFilters, s.foreign.filtered, s.foreign.given, s.foreign.scored = 0, nil, nil, nil
	s.state = schedframework.NewCycleState()
	s.attempt = s.engine.Decide(s.ctx, Request{Plan: s.plan, State: s.state, Pod: s.pod("a"), Enough: s.enough})
	decision, reason := outcome(s.attempt)
	if reason != want {
		s.Fatalf("the reason is %q, want %q", reason, want)
	}
	return decision
}

func (s *restScene) expectNodes(what string, got []string, want ...string) {
	s.Helper()
	if !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		s.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (s *restScene) best(decision decided) (names []string) {
	for slot := range decision.Best.all() {
		names = append(names, s.nodeName(slot))
	}
	return names
}

func refuse(nodes ...string) func(string) *fwk.Status {
	return func(node string) *fwk.Status {
		if slices.Contains(nodes, node) {
			return fwk.NewStatus(fwk.Unschedulable, "no")
		}
		return nil
	}
}

func scores(of map[string]int64) func(string) int64 {
	return func(node string) int64 { return of[node] }
}

func TestForeignPluginRunsForRemainingNodesOnly(t *testing.T) {
	s := newRestScene(t, 5, &foreign{filter: refuse("n1", "n2"), score: scores(map[string]int64{"n3": 4, "n4": 4})})
	s.plugin.filter = refuse("n0", "n1")
	s.plugin.score = scores(map[string]int64{"n2": 50, "n3": 10, "n4": 11})
	for range 2 {
		decision := s.expect(None)
		s.expectNodes("filtered", s.foreign.filtered, "n2", "n3", "n4")
		s.expectNodes("given to PreScore", s.foreign.given, "n3", "n4")
		s.expectNodes("scored", s.foreign.scored, "n3", "n4")
		s.expectNodes("best", s.best(decision), "n4")
		if decision.Feasible != 2 || decision.Evaluated != 5 || decision.Uncached != UnknownPlugin ||
			s.foreign.preFilters != 1 {
			t.Errorf("got %+v after %d calls of PreFilter", decision, s.foreign.preFilters)
		}
		fit, _ := s.attempt.Fit()
		totals, err := fit.Totals(s.ctx)
		if want := map[string]int64{"n3": 2*10 + 3*4, "n4": 2*11 + 3*4}; err != nil || !maps.Equal(totals, want) {
			t.Errorf("the totals are %v (%v), want %v", totals, err, want)
		}
	}
}

func TestForeignScoresAreNormalizedAndWeighted(t *testing.T) {
	for name, test := range map[string]struct {
		local map[string]int64
		best  []string
	}{
		"one is best": {map[string]int64{"n0": 40, "n1": 0, "n2": 16}, []string{"n0"}},       // 110, 90, 92
		"two are":     {map[string]int64{"n0": 29, "n1": 0, "n2": 15}, []string{"n1", "n2"}}, // 88, 90, 90
	} {
		t.Run(name, func(t *testing.T) {
			s := newRestScene(t, 3, &foreign{
				score: scores(map[string]int64{"n0": 1000, "n1": 3000, "n2": 2000}),
				normalize: func(scores fwk.NodeScoreList) *fwk.Status {
					for i := range scores {
						scores[i].Score /= 100
					}
					return nil
				},
			})
			s.plugin.score = scores(test.local)
			s.expectNodes("best", s.best(s.expect(None)), test.best...)
		})
	}
}

func TestPreFilterRestrictsTheRemainingNodes(t *testing.T) {
	s := newRestScene(t, 5, &foreign{filter: refuse("n4"), preFilter: func() (*fwk.PreFilterResult, *fwk.Status) {
		return &fwk.PreFilterResult{NodeNames: sets.New("n1", "n2", "n4", "gone")}, nil
	}})
	s.plugin.filter = refuse("n2")
	decision := s.expect(None)
	s.expectNodes("filtered", s.foreign.filtered, "n1", "n4")
	s.expectNodes("best", s.best(decision), "n1")
	if decision.Feasible != 1 || decision.Evaluated != 3 {
		t.Errorf("got %+v, of three nodes by these names", decision)
	}
}

func TestAPluginThatSkipsCostsNothing(t *testing.T) {
	s := newRestScene(t, 5, &foreign{preFilter: func() (*fwk.PreFilterResult, *fwk.Status) {
		return nil,
			fwk.NewStatus(fwk.Skip)
	}})
	decision := s.expect(None)
	s.expectNodes("filtered", s.foreign.filtered)
	if decision.Feasible != 5 {
		t.Errorf("%d nodes fit", decision.Feasible)
	}
}

func TestOnePassingNodeIsNotScored(t *testing.T) {
	s := newRestScene(t, 3, &foreign{filter: refuse("n0", "n1"), score: scores(nil)})
	s.expectNodes("best", s.best(s.expect(None)), "n2")
	s.expectNodes("given to PreScore", s.foreign.given)
}

// expectNobodyAskedAgain does what the scalar path does. It expects calls of the plugin only for
// nodes that it was not called for.
func (s *restScene) expectNobodyAskedAgain() {
	s.Helper()
	state := s.attempt.State()
	if _, status, _ := s.plan.framework.RunPreFilterPlugins(s.ctx, state, s.pod("a")); status.IsSuccess() {
		for slot := range s.snapshot.Slots() {
			s.plan.framework.RunFilterPlugins(s.ctx, state, s.pod("a"), s.snapshot.Info(cache.Slot(slot)))
		}
	}
	asked := slices.Sorted(slices.Values(s.foreign.filtered))
	if s.foreign.preFilters != 1 || len(slices.Compact(asked)) != len(s.foreign.filtered) {
		s.Errorf("PreFilter was called %d times, Filter for %v", s.foreign.preFilters, s.foreign.filtered)
	}
}

func TestRejectionsOfUncachedPluginsAreLeftToTheScalarPath(t *testing.T) {
	refusal := func() *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "no") }
	for name, test := range map[string]struct {
		foreign *foreign
		want    Reason
	}{
		"PreFilter refuses the pod": {
			&foreign{preFilter: func() (*fwk.PreFilterResult, *fwk.Status) { return nil, refusal() }}, Failed},
		"PreFilter fails": {&foreign{preFilter: func() (*fwk.PreFilterResult, *fwk.Status) {
			return nil, fwk.AsStatus(errors.New("broken"))
		}}, Failed},
		"PreFilter names no node that exists": {&foreign{preFilter: func() (*fwk.PreFilterResult, *fwk.Status) {
			return &fwk.PreFilterResult{NodeNames: sets.New("gone")}, nil
		}}, NoFit},
		"every node is refused": {&foreign{filter: func(string) *fwk.Status { return refusal() }}, NoFit},
		"a filter fails": {
			&foreign{filter: func(string) *fwk.Status { return fwk.AsStatus(errors.New("broken")) }}, Failed},
		"a filter panics":     {&foreign{filter: func(string) *fwk.Status { panic("boom") }}, Failed},
		"a score is too high": {&foreign{score: func(string) int64 { return 101 }}, Failed},
		"normalization fails": {&foreign{score: scores(nil), normalize: func(fwk.NodeScoreList) *fwk.Status {
			return fwk.AsStatus(errors.New("broken"))
		}}, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRestScene(t, 4, test.foreign)
			s.expect(test.want)
			s.expectNobodyAskedAgain()
			if scoring := test.foreign.score != nil; (s.attempt.Err() != nil) != scoring {
				t.Errorf("the failure is %v", s.attempt.Err())
			}
			if test.want != NoFit {
				return
			}
			unfit, _ := s.attempt.Unfit()
			unfit.Keep(s.ctx, schedframework.Diagnosis{NodeToStatus: schedframework.NewDefaultNodeToStatus()}, s.state)
			s.expect(NoFit)
			if unfit, _ := s.attempt.Unfit(); unfit.Explained() {
				t.Error("what was said of one pod is held against the next")
			}
		})
	}
}

func TestTheStateIsWhatReserveNeeds(t *testing.T) {
	s := newRestScene(t, 4, &foreign{filter: refuse("n3")})
	decision := s.expect(None)
	data, err := s.state.Read(foundKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range s.best(decision) {
		if _, ok := data.(*found).nodes.Load(name); !ok {
			t.Errorf("the plugin has left nothing about %s, which may be chosen", name)
		}
	}
}

func TestTrialLeavesTheStateUnchanged(t *testing.T) {
	before := &found{}
	state := schedframework.NewCycleState()
	state.Write(foundKey, before)
	state.SetSkipFilterPlugins(sets.New("before"))
	tried := newUndoable(state)
	tried.Write(foundKey, &found{})
	tried.Write("new", &found{})
	tried.Delete(foundKey)
	tried.SetSkipFilterPlugins(sets.New("after"))
	tried.SetSkipScorePlugins(sets.New("after"))
	tried.undo()
	if after, err := state.Read(foundKey); err != nil || after != before {
		t.Errorf("the state has %v (%v)", after, err)
	}
	if _, err := state.Read("new"); err == nil {
		t.Error("what is new has stayed")
	}
	if !state.GetSkipFilterPlugins().Equal(sets.New("before")) || len(state.GetSkipScorePlugins()) != 0 {
		t.Errorf("%v and %v are skipped", state.GetSkipFilterPlugins(), state.GetSkipScorePlugins())
	}
}

func TestEnoughNodesEndTheSearch(t *testing.T) {
	const nodes, enough, turns = 100, 10, 1000
	s := newRestScene(t, nodes, &foreign{filter: func(node string) *fwk.Status { return refuse("n7", "n77")(node) }})
	s.enough = enough
	seen := sets.New[string]()
	for turn := 0; turn < turns && len(seen) < nodes-2; turn++ {
		decision := s.expect(None)
		if decision.Feasible != enough {
			t.Fatalf("%d nodes fit, %d are enough", decision.Feasible, enough)
		}
		asked := len(s.foreign.filtered)
		// A worker that is about to evaluate a node when the last one is found may still do so.
		if most := enough + 2 + nodes/2; asked < enough || asked > most || decision.Evaluated > asked {
			t.Fatalf("asked about %d nodes, evaluated %d", asked, decision.Evaluated)
		}
		seen.Insert(s.best(decision)...)
	}
	if len(seen) != nodes-2 {
		t.Errorf("%d nodes had their turn", len(seen))
	}
}

func TestEnoughUnfilteredNodesAreScored(t *testing.T) {
	const nodes, enough = 60, 20
	s := newRestScene(t, nodes, &foreign{score: scores(nil)})
	s.enough = enough
	s.plan = planOf(framework.Config{
		ProfileName: "mine", Snapshot: s.snapshot, Plugins: &framework.Plugins{
			PreScore: []fwk.PreScorePlugin{s.foreign}, Score: []fwk.ScorePlugin{s.foreign},
			ScoreWeights: map[string]int64{"Foreign": 1},
		},
	})
	seen := sets.New[string]()
	for range nodes / enough {
		if decision := s.expect(None); decision.Feasible != enough || decision.Evaluated != enough ||
			len(s.foreign.scored) != enough {
			t.Fatalf("got %+v, %d scored", decision, len(s.foreign.scored))
		}
		seen.Insert(s.foreign.scored...)
	}
	if len(seen) != nodes {
		t.Errorf("%d nodes had their turn", len(seen))
	}
}

func TestRowsCoverAllNodesHoweverManyAreEnough(t *testing.T) {
	s := newScene(t, 200, 0)
	s.enough = 100
	s.plugin.score = func(node string) int64 {
		if node == "n199" {
			return 9
		}
		return 0
	}
	got := s.expect(s.pod("a"), None)
	if got.Feasible != 200 || got.Uncached != None || s.nodeName(got.Best.at(0)) != "n199" {
		t.Errorf("got %+v", got)
	}
}
