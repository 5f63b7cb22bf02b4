// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// fake is a plugin for PreFilter, Filter, PreScore and Score. What is nil succeeds, leaves all
// nodes, or scores 0.
type fake struct {
	name      string
	preFilter func() (*fwk.PreFilterResult, *fwk.Status)
	filter    func(ctx context.Context, node string) *fwk.Status
	preScore  func() *fwk.Status
	score     func(node string) int64
}

func (f *fake) Name() string { return f.name }

func (f *fake) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if f.preFilter == nil {
		return nil, nil
	}
	return f.preFilter()
}

func (f *fake) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (f *fake) Filter(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if f.filter == nil {
		return nil
	}
	return f.filter(ctx, node.Node().Name)
}

func (f *fake) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	if f.preScore == nil {
		return nil
	}
	return f.preScore()
}

func (f *fake) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if f.score == nil {
		return 0, nil
	}
	return f.score(node.Node().Name), nil
}

func (f *fake) ScoreExtensions() fwk.ScoreExtensions { return nil }

// profileOf returns a profile that runs the fakes at all their extension points,
// one node at a time.
func profileOf(snapshot fwk.SharedLister, fakes ...*fake) Profile {
	plugins := &framework.Plugins{ScoreWeights: map[string]int64{}}
	for _, f := range fakes {
		plugins.PreFilter = append(plugins.PreFilter, f)
		plugins.Filter = append(plugins.Filter, f)
		plugins.PreScore = append(plugins.PreScore, f)
		plugins.Score = append(plugins.Score, f)
		plugins.ScoreWeights[f.name] = 1
	}
	return Profile{Framework: framework.New(framework.Config{
		ProfileName: "test", Plugins: plugins, Snapshot: snapshot, Parallelizer: framework.NewParallelizer(1),
	})}
}

// ordered is a snapshot that lists its nodes by name.
type ordered struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes []fwk.NodeInfo
}

func (o ordered) NodeInfos() fwk.NodeInfoLister         { return o }
func (o ordered) List() ([]fwk.NodeInfo, error)         { return o.nodes, nil }
func (o ordered) Get(name string) (fwk.NodeInfo, error) { return o.NodeInfoLister.Get(name) }

// cluster returns a snapshot of n empty nodes, n0 and so on.
func cluster(t *testing.T, n int) ordered {
	t.Helper()
	var nodes []*corev1.Node
	for i := range n {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}})
	}
	snapshot := schedcache.NewSnapshot(nil, nodes)
	out := ordered{SharedLister: snapshot, NodeInfoLister: snapshot.NodeInfos()}
	for _, node := range nodes {
		info, err := snapshot.Get(node.Name)
		if err != nil {
			t.Fatal(err)
		}
		out.nodes = append(out.nodes, info)
	}
	return out
}

func makePod(nominated string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: types.UID("p")},
		Status:     corev1.PodStatus{NominatedNodeName: nominated},
	}
}

func schedule(t *testing.T, s *Scheduler, p Profile, pod *corev1.Pod) (Result, error) {
	t.Helper()
	return s.Schedule(quiet(t), p, schedframework.NewCycleState(), pod)
}

func refuse(reason string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, reason) }

// onlyOn is a filter that refuses other nodes.
func onlyOn(names ...string) func(context.Context, string) *fwk.Status {
	return func(_ context.Context, node string) *fwk.Status {
		if sets.New(names...).Has(node) {
			return nil
		}
		return refuse("not this one")
	}
}

func mustSchedule(t *testing.T, s *Scheduler, p Profile, pod *corev1.Pod) Result {
	t.Helper()
	result, err := schedule(t, s, p, pod)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestScheduleChoosesTheBestNode(t *testing.T) {
	snapshot := cluster(t, 4)
	p := profileOf(snapshot,
		&fake{name: "a", filter: onlyOn("n0", "n1", "n3"), score: func(node string) int64 {
			return map[string]int64{"n0": 10, "n1": 50, "n2": 100, "n3": 40}[node]
		}},
		&fake{name: "b", score: func(node string) int64 { return map[string]int64{"n3": 11}[node] }},
	)
	got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	want := Result{SuggestedHost: "n3", EvaluatedNodes: 4, FeasibleNodes: 3}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestScheduleDoesNotScoreTheOnlyNode(t *testing.T) {
	snapshot := cluster(t, 3)
	p := profileOf(snapshot, &fake{name: "a", filter: onlyOn("n1"), preScore: func() *fwk.Status { return refuse("not reached") }})
	got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	if want := (Result{SuggestedHost: "n1", EvaluatedNodes: 3, FeasibleNodes: 1}); got != want {
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
			// Every decision has the search begin elsewhere; this one at n0.
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
	t.Run("no draw is made when one is best", func(t *testing.T) {
		s := New(Config{Snapshot: snapshot, IntN: func(int) int { panic("not reached") }})
		p := profileOf(snapshot, &fake{name: "a", score: func(node string) int64 { return int64(node[1]) % 10 }})
		mustSchedule(t, s, p, makePod(""))
	})
}

func TestScheduleWithoutNodes(t *testing.T) {
	snapshot := cluster(t, 0)
	_, err := schedule(t, New(Config{Snapshot: snapshot}), profileOf(snapshot), makePod(""))
	if err != ErrNoNodesAvailable || err.Error() != "no nodes available to schedule pods" {
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
			name:    "node by node",
			a:       &fake{filter: onlyOn("n0", "n1")},
			b:       &fake{filter: func(context.Context, string) *fwk.Status { return fwk.NewStatus(fwk.Pending, "too busy", "too hot") }},
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
			`running Filter plugin "a": broken`},
		{"Filter of one of many nodes", &fake{filter: func(_ context.Context, node string) *fwk.Status {
			if node == "n1" {
				return broken()
			}
			return nil
		}}, `running Filter plugin "a": broken`},
		{"PreScore", &fake{preScore: broken}, `running PreScore plugin "a": broken`},
		{"Score", &fake{score: func(string) int64 { return 101 }},
			`running Score plugin "a": the score of node "n0" is 101 after normalising, it must be from 0 to 100`},
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

func TestScheduleWhoseContextEndsSaysNothingAboutNodes(t *testing.T) {
	snapshot := cluster(t, 50)
	ctx, cancel := context.WithCancelCause(quiet(t))
	p := profileOf(snapshot, &fake{name: "a", filter: func(context.Context, string) *fwk.Status {
		cancel(errors.New("shutting down"))
		return refuse("not this one")
	}})
	_, err := New(Config{Snapshot: snapshot}).Schedule(ctx, p, schedframework.NewCycleState(), makePod(""))
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
		if want := (Result{SuggestedHost: "n2", EvaluatedNodes: 1, FeasibleNodes: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if diff := cmp.Diff([]string{"n2"}, looked); diff != "" {
			t.Errorf("nodes that were looked at (-want +got):\n%s", diff)
		}
	})
	for name, test := range map[string]struct {
		node  string
		first *fwk.Status // of the nominated node when it is looked at alone
	}{
		"does not matter if it does not fit":          {"n2", refuse("full")},
		"does not matter if it is gone":               {"gone", nil},
		"does not matter if looking at it goes wrong": {"n2", fwk.AsStatus(errors.New("broken"))},
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
			if want := (Result{SuggestedHost: got.SuggestedHost, EvaluatedNodes: 4, FeasibleNodes: 2}); got != want {
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
	if want := (Result{SuggestedHost: "n7", EvaluatedNodes: 2, FeasibleNodes: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if diff := cmp.Diff([]string{"n3", "n7"}, looked); diff != "" {
		t.Errorf("nodes that were looked at (-want +got):\n%s", diff)
	}
}

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
		c := &cycle{profile: p}
		if got := c.numFeasibleNodesToFind(test.nodes); got != test.want {
			t.Errorf("%d%% of %d nodes: got %d, want %d", test.percentage, test.nodes, got, test.want)
		}
	}
	t.Run("one is enough if there is nothing to choose by", func(t *testing.T) {
		filterOnly := framework.New(framework.Config{Plugins: &framework.Plugins{Filter: []fwk.FilterPlugin{&fake{name: "a"}}}})
		for _, test := range []struct {
			name     string
			extender *tf.FakeExtender
			want     int
		}{
			{"an extender without filter and score", &tf.FakeExtender{}, 1},
			{"an extender may still refuse nodes", &tf.FakeExtender{Predicates: []tf.FitPredicate{tf.TruePredicateExtender}}, 50},
			{"an extender scores", &tf.FakeExtender{Prioritizers: []tf.PriorityConfig{{Function: tf.Node1PrioritizerExtender, Weight: 1}}}, 50},
		} {
			c := &cycle{profile: Profile{Framework: filterOnly, Extenders: []fwk.Extender{test.extender}}}
			if got := c.numFeasibleNodesToFind(50); got != test.want {
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

func TestFiltersThatRunLateSeeThatEnoughWasFound(t *testing.T) {
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

func TestExtenderPanicFailsThePod(t *testing.T) {
	snapshot := cluster(t, 3)
	p := profileOf(snapshot, &fake{name: "a"})
	p.Extenders = []fwk.Extender{&tf.FakeExtender{ExtenderName: "bad", Predicates: []tf.FitPredicate{
		func(*corev1.Pod, fwk.NodeInfo) *fwk.Status { panic("boom") },
	}}}
	_, err := schedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	if err == nil || err.Error() != `extender "bad" panicked at filter: boom` {
		t.Errorf("got %v", err)
	}
}

func TestExtenders(t *testing.T) {
	snapshot := cluster(t, 3)
	node := func(name string, s *fwk.Status) tf.FitPredicate {
		return func(_ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
			if node.Node().Name == name {
				return s
			}
			return nil
		}
	}
	run := func(t *testing.T, extenders ...fwk.Extender) (Result, error) {
		p := profileOf(snapshot, &fake{name: "a", score: func(node string) int64 { return map[string]int64{"n0": 30}[node] }})
		p.Extenders = extenders
		return schedule(t, New(Config{Snapshot: snapshot}), p, makePod(""))
	}
	t.Run("refuse nodes one after the other", func(t *testing.T) {
		got, err := run(t,
			&tf.FakeExtender{Predicates: []tf.FitPredicate{node("n0", refuse("no"))}},
			&tf.FakeExtender{Predicates: []tf.FitPredicate{node("n1", refuse("no"))}})
		if want := (Result{SuggestedHost: "n2", EvaluatedNodes: 3, FeasibleNodes: 1}); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	})
	t.Run("that refuse all nodes are named", func(t *testing.T) {
		all := func(_ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
			if node.Node().Name == "n0" {
				return fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
			}
			return fwk.NewStatus(fwk.Unschedulable)
		}
		_, err := run(t, &tf.FakeExtender{Predicates: []tf.FitPredicate{all}})
		var fit *schedframework.FitError
		if !errors.As(err, &fit) || !fit.Diagnosis.UnschedulablePlugins.Equal(sets.New(schedframework.ExtenderName)) {
			t.Fatalf("got %v", err)
		}
		const want = `0/3 nodes are available: 1 FakeExtender: node "n0" failed and unresolvable, ` +
			`1 FakeExtender: node "n1" failed, 1 FakeExtender: node "n2" failed.`
		if fit.Error() != want {
			t.Errorf("got  %s\nwant %s", fit, want)
		}
		if code := fit.Diagnosis.NodeToStatus.Get("n0").Code(); code != fwk.UnschedulableAndUnresolvable {
			t.Errorf("n0 is %s", code)
		}
	})
	t.Run("that fail fail the pod, unless they may be ignored", func(t *testing.T) {
		_, err := run(t, &tf.FakeExtender{Predicates: []tf.FitPredicate{tf.ErrorPredicateExtender}})
		if err == nil || !strings.Contains(err.Error(), "some error") {
			t.Errorf("got %v", err)
		}
		got, err := run(t, &tf.FakeExtender{Ignorable: true, Predicates: []tf.FitPredicate{tf.ErrorPredicateExtender}})
		if err != nil || got.SuggestedHost != "n0" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("add weighted scores that are scaled to those of plugins", func(t *testing.T) {
		prefer := func(name string, weight int64) fwk.Extender {
			return &tf.FakeExtender{Weight: weight, Prioritizers: []tf.PriorityConfig{{Weight: 1,
				Function: func(*corev1.Pod, []fwk.NodeInfo) (*fwk.NodeScoreList, error) {
					return &fwk.NodeScoreList{{Name: name, Score: 1}, {Name: "gone", Score: 10}}, nil
				}}}}
		}
		// 30 from the plugin; 1 * weight * 10 from the extender.
		for weight, want := range map[int64]string{2: "n0", 4: "n1"} {
			got, err := run(t, prefer("n1", weight))
			if err != nil || got.SuggestedHost != want {
				t.Errorf("weight %d: got %+v, %v", weight, got, err)
			}
		}
		got, err := run(t, prefer("n1", 2), prefer("n1", 2), prefer("n2", 3))
		if err != nil || got.SuggestedHost != "n1" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("that fail to score give no score", func(t *testing.T) {
		for name, function := range map[string]tf.PriorityFunc{
			"error": tf.ErrorPrioritizerExtender,
			"panic": func(*corev1.Pod, []fwk.NodeInfo) (*fwk.NodeScoreList, error) { panic("boom") },
		} {
			got, err := run(t, &tf.FakeExtender{Weight: 9, Prioritizers: []tf.PriorityConfig{{Function: function, Weight: 1}}})
			if err != nil || got.SuggestedHost != "n0" {
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
	})
	t.Run("are asked about the nominated node too", func(t *testing.T) {
		p := profileOf(snapshot, &fake{name: "a", score: func(node string) int64 { return map[string]int64{"n0": 30}[node] }})
		p.Extenders = []fwk.Extender{&tf.FakeExtender{Predicates: []tf.FitPredicate{node("n1", refuse("no"))}}}
		got := mustSchedule(t, New(Config{Snapshot: snapshot}), p, makePod("n1"))
		if want := (Result{SuggestedHost: "n0", EvaluatedNodes: 3, FeasibleNodes: 2}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
