// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
)

func TestMain(m *testing.M) {
	schedmetrics.Register()
	os.Exit(m.Run())
}

// scored is a node-local plugin. Without a function it rejects no node and scores the number of
// pods on it.
type scored struct {
	filter func(node string) *fwk.Status
	score  func(node string) int64
	asked  atomic.Int32
}

func (*scored) Name() string { return "Scored" }

func (*scored) NodeLocalKey(pod *corev1.Pod) (string, bool) { return "", pod.Labels["ask"] == "" }

func (s *scored) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	s.asked.Add(1)
	if s.filter == nil {
		return nil
	}
	return s.filter(node.Node().Name)
}

func (s *scored) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if s.score == nil {
		return int64(len(node.GetPods())), nil
	}
	return s.score(node.Node().Name), nil
}

func (*scored) ScoreExtensions() fwk.ScoreExtensions { return nil }

// scene is an Engine with a cluster of n0, n1 and so on.
type scene struct {
	*testing.T
	ctx      context.Context
	cache    *cache.Cache
	snapshot *cache.Snapshot
	engine   *Engine
	plugin   *scored
	plan     *Plan
	enough   int // number of nodes to find
	made     int
	counted  map[string]int // by plugin and extension point; see evaluations
}

func newScene(t *testing.T, nodes, maxBytes int) *scene {
	s := &scene{
		T: t, ctx: klog.NewContext(t.Context(), logr.Discard()),
		cache: cache.New(), snapshot: cache.NewSnapshot(), plugin: &scored{},
	}
	s.engine = New(s.snapshot, maxBytes)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		s.cache.AddNode(logr.Discard(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
	}
	s.plan = s.newPlan("mine", s.plugin)
	s.engine.mentions = mentionsOf(t, asking("app"))
	return s
}

// asking is a pod with a term that mentions a label.
func asking(key string) *corev1.Pod {
	term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}},
	}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
	}}}}
	pod.Namespace = "ns"
	return pod
}

func (s *scene) newPlan(name string, pl fwk.Plugin) *Plan {
	plugins := &framework.Plugins{ScoreWeights: map[string]int64{"Scored": 2}}
	if filter, ok := pl.(fwk.FilterPlugin); ok {
		plugins.Filter = append(plugins.Filter, filter)
	}
	plugins.Score = append(plugins.Score, pl.(fwk.ScorePlugin))
	return planOf(framework.Config{ProfileName: name, Plugins: plugins, Snapshot: s.snapshot})
}

// planOf returns the Plan for plugins, without trackers of topology domains.
func planOf(cfg framework.Config) *Plan { return NewPlan(PlanConfig{Framework: framework.New(cfg)}) }

func (s *scene) pod(app string) *corev1.Pod {
	s.made++
	name := fmt.Sprintf("p%d", s.made)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name),
		Labels: map[string]string{"app": app}}}
}

func (s *scene) nodeName(slot cache.Slot) string { return s.snapshot.Info(slot).Node().Name }

// decided is the outcome of a decision.
type decided struct {
	Placement
	Best ties
}

// outcome returns the outcome of an attempt, before a node is taken.
func outcome(a Attempt) (decided, Reason) {
	d := a.lent()
	if d.reason != None {
		return decided{}, d.reason
	}
	return decided{
		Placement: Placement{
			Feasible: d.feasible, Evaluated: d.evaluated, Class: cache.Class{ID: d.class.id, Like: d.class.like},
			Uncached: d.uncached.reason,
		},
		Best: d.best,
	}, None
}

func (s *scene) decide(pod *corev1.Pod) (decided, Reason) {
	s.Helper()
	if err := s.cache.UpdateSnapshot(logr.Discard(), s.snapshot); err != nil {
		s.Fatal(err)
	}
	return outcome(s.engine.Decide(s.ctx,
		Request{Plan: s.plan, State: schedframework.NewCycleState(), Pod: pod, Enough: s.enough}))
}

func (s *scene) expect(pod *corev1.Pod, want Reason) decided {
	s.Helper()
	decision, reason := s.decide(pod)
	if reason != want {
		s.Fatalf("the reason is %q, want %q", reason, want)
	}
	return decision
}

func TestDecisionRunsPluginsForChangedNodesOnly(t *testing.T) {
	const nodes = 500
	s := newScene(t, nodes, 0)
	s.expect(s.pod("a"), None)
	if n := s.plugin.asked.Swap(0); n != nodes {
		t.Fatalf("asked about %d nodes, want all %d", n, nodes)
	}
	for range 20 {
		pod := s.pod("a")
		decision := s.expect(pod, None)
		if n := s.plugin.asked.Swap(0); n > 1 {
			t.Fatalf("asked about %d nodes, want the one that has changed", n)
		}
		pod.Spec.NodeName = s.nodeName(decision.Best.at(0))
		if err := s.cache.AssumePodOfClass(logr.Discard(), pod, decision.Class); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(s.pod("another app, which the plugin does not go by"), None)
	if n := s.plugin.asked.Swap(0); n > 1 {
		t.Errorf("asked about %d nodes for a class that shares its rows", n)
	}
}

func TestUnsupportedPodsTakeTheScalarPath(t *testing.T) {
	s := newScene(t, 3, 0)
	asks := s.pod("a")
	asks.Labels["ask"] = "me"
	s.expect(asks, UnknownPlugin)
	reported := s.pod("a")
	reported.Status.Resources = &corev1.ResourceRequirements{}
	s.expect(reported, Devices)
	infeasible := s.pod("a")
	infeasible.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}}
	s.expect(infeasible, Devices)
	s.plan = planOf(framework.Config{ProfileName: "mine", Plugins: &framework.Plugins{}, Snapshot: s.snapshot})
	s.expect(s.pod("a"), UnknownPlugin)
}

func TestFailuresAreLeftToTheScalarPath(t *testing.T) {
	for name, spoil := range map[string]func(*scene){
		"a filter fails": func(s *scene) {
			s.plugin.filter = func(string) *fwk.Status { return fwk.NewStatus(fwk.Error, "broken") }
		},
		"a filter panics":         func(s *scene) { s.plugin.filter = func(string) *fwk.Status { panic("boom") } },
		"a score is out of range": func(s *scene) { s.plugin.score = func(string) int64 { return 101 } },
		"a score is negative":     func(s *scene) { s.plugin.score = func(string) int64 { return -1 } },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 30, 0)
			spoil(s)
			s.expect(s.pod("a"), Failed)
			s.plugin.filter, s.plugin.score = nil, nil
			if got := s.expect(s.pod("a"), None); got.Feasible != 30 {
				t.Errorf("%d nodes fit once it is mended", got.Feasible)
			}
		})
	}
	t.Run("the context ends", func(t *testing.T) {
		s := newScene(t, 50, 0)
		ctx, cancel := context.WithCancel(s.ctx)
		s.ctx = ctx
		s.plugin.filter = func(string) *fwk.Status {
			cancel()
			return nil
		}
		s.expect(s.pod("a"), Failed)
	})
}

func TestUnschedulablePod(t *testing.T) {
	s := newScene(t, 3, 0)
	s.plugin.filter = func(string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "no") }
	s.expect(s.pod("a"), NoFit)
}

func TestASingleNodeNeedsNoScore(t *testing.T) {
	s := newScene(t, 3, 0)
	s.plugin.filter = func(node string) *fwk.Status {
		if node != "n1" {
			return fwk.NewStatus(fwk.Unschedulable, "no")
		}
		return nil
	}
	got := s.expect(s.pod("a"), None)
	if got.Feasible != 1 || got.Best.len() != 1 || s.nodeName(got.Best.at(0)) != "n1" {
		t.Errorf("got %+v", got)
	}
}

func TestClassesAreBoundedInBytes(t *testing.T) {
	const maxBytes, most = 80 << 10, 40
	s := newScene(t, 10, maxBytes)
	ids := map[cache.ClassID]bool{}
	for i := range 100 {
		class := s.expect(s.pod(fmt.Sprintf("app-%d", i)), None).Class
		if ids[class.ID] {
			t.Fatalf("class %d is given out twice", class.ID)
		}
		ids[class.ID] = true
		if s.engine.classes.bytes > maxBytes {
			t.Fatalf("%d bytes are held, the bound is %d", s.engine.classes.bytes, maxBytes)
		}
	}
	held := s.engine.classes.residents.len()
	if held == 0 || held > most || len(s.engine.classes.byID) != held ||
		len(s.engine.classes.instances["mine"].setup.classes) != held {
		t.Errorf("%d classes are held", held)
	}
	latest := s.expect(s.pod("app-99"), None).Class.ID
	if !ids[latest] {
		t.Error("the class that was used last is gone")
	}
	if oldest := s.expect(s.pod("app-0"), None).Class.ID; ids[oldest] {
		t.Error("a class that was not used for long is still there")
	}
	for s.engine.classes.residents.len() > 0 {
		s.engine.classes.drop(s.engine.classes.residents.victim(nil))
	}
	if s.engine.classes.bytes != 0 || len(s.engine.classes.instances["mine"].setup.locals) != 0 {
		t.Errorf("%d bytes are held by no class", s.engine.classes.bytes)
	}
}

func TestPodsOfJobsShareAClass(t *testing.T) {
	s := newScene(t, 3, 0)
	job := func() *corev1.Pod {
		pod := s.pod("a")
		pod.Labels["batch.kubernetes.io/job-name"] = pod.Name
		pod.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)},
		}
		return pod
	}
	ids := map[cache.ClassID]bool{}
	for range 100 {
		ids[s.expect(job(), None).Class.ID] = true
	}
	if len(ids) != 1 || s.engine.classes.residents.len() != 1 {
		t.Fatalf("%d classes were made, %d are alive", len(ids), s.engine.classes.residents.len())
	}
	// A pod that mentions the label causes new classes that depend on it, which replace the present
	// ones.
	asks := asking("batch.kubernetes.io/job-name")
	asks.Name, asks.UID, asks.Namespace, asks.Spec.NodeName = "asks", "asks", "ns", "n1"
	if err := s.cache.AddPod(logr.Discard(), asks); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		id := s.expect(job(), None).Class.ID
		if ids[id] || s.engine.classes.residents.len() != i+1 {
			t.Fatalf("class %d again, or %d classes for %d jobs", id, s.engine.classes.residents.len(), i+1)
		}
		ids[id] = true
	}
	if len(s.engine.classes.byID) != 10 || len(s.engine.classes.instances["mine"].setup.classes) != 10 {
		t.Errorf("%d classes are known by their numbers", len(s.engine.classes.byID))
	}
}

func TestAnOddPodDoesNotDegradeOthers(t *testing.T) {
	s := newScene(t, 3, 0)
	// reading returns a pod whose selectors read n keys of their own.
	reading := func(name string, n int) *corev1.Pod {
		pod := asking(name + "-0")
		pod.Name, pod.UID, pod.Namespace = name, types.UID(name), "ns"
		terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		expressions := &terms[0].LabelSelector.MatchExpressions
		for i := 1; i < n; i++ {
			*expressions = append(*expressions,
				metav1.LabelSelectorRequirement{Key: fmt.Sprintf("%s-%d", name, i),
					Operator: metav1.LabelSelectorOpExists})
		}
		return pod
	}
	// classesOf returns the classes of two pods with labels of their own, as pods of Jobs have.
	classesOf := func() (a, b cache.ClassID) {
		var ids [2]cache.ClassID
		for i := range ids {
			pod := s.pod("a")
			pod.Labels["job"] = pod.Name
			ids[i] = s.expect(pod, None).Class.ID
		}
		return ids[0], ids[1]
	}
	usual, _ := classesOf()

	// While it is pending, it takes the scalar path.
	s.expect(reading("odd", maxOwnMentions+1), Selectors)
	if a, b := classesOf(); a != usual || b != usual {
		t.Error("a pending pod made the other pods change their class")
	}

	// While such pods run, their selectors count.
	var running []*corev1.Pod
	for i := range topology.DefaultMaxMentions/maxOwnMentions + 1 {
		pod := reading(fmt.Sprint("odd-", i), maxOwnMentions)
		pod.Spec.NodeName = "n1"
		if err := s.cache.AddPod(logr.Discard(), pod); err != nil {
			t.Fatal(err)
		}
		running = append(running, pod)
	}
	if a, b := classesOf(); a == b {
		t.Fatal("not all labels count, although selectors read too many")
	}

	// Once they are gone, everything is as before.
	for _, pod := range running {
		if err := s.cache.RemovePod(logr.Discard(), pod); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		classesOf()
	}
	if a, b := classesOf(); a != b {
		t.Error("all labels count, although the pods whose selectors read many are gone")
	}
	if n := s.engine.classes.residents.len(); n != 1 {
		t.Errorf("there are %d classes, want 1", n)
	}
}

func TestCachedRowsAreDroppedWithTheirInstance(t *testing.T) {
	s := newScene(t, 3, 0)
	closed := make(chan struct{})
	mine := s.plan
	s.plan = s.newPlan("other", s.plugin)
	s.plan.closed = closed
	s.expect(s.pod("a"), None)
	s.plan = mine
	s.expect(s.pod("a"), None)
	if n := s.engine.classes.residents.len(); n != 2 {
		t.Fatalf("%d classes, want one for each profile", n)
	}
	close(closed)
	s.plan = s.newPlan("mine", &scored{score: func(node string) int64 {
		if node == "n2" {
			return 5
		}
		return 0
	}})
	got := s.expect(s.pod("a"), None)
	if got.Best.len() != 1 || s.nodeName(got.Best.at(0)) != "n2" {
		t.Errorf("the new instance chose by the scores of the old one: %v", got.Best)
	}
	if n := s.engine.classes.residents.len(); n != 1 || len(s.engine.classes.instances) != 1 {
		t.Errorf("%d classes of %d instances are left, want one", n, len(s.engine.classes.instances))
	}
}

// keeper reserves with the state that PreFilter has left.
type keeper struct{ scored }

func (*keeper) PreFilter(context.Context, fwk.CycleState, *corev1.Pod,
	[]fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}
func (*keeper) PreFilterExtensions() fwk.PreFilterExtensions                             { return nil }
func (*keeper) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status { return nil }
func (*keeper) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string)           {}

func TestPluginWithCycleStateIsNotNodeLocal(t *testing.T) {
	if got := kindOf(&scored{}); got != local {
		t.Errorf("the kind of a plugin that is node-local is %d", got)
	}
	if got := kindOf(&nodelabel.NodeLabel{}); got != eligibility {
		t.Errorf("the kind of a plugin that reads the node object only is %d", got)
	}
	if got := kindOf(&keeper{}); got != opaque {
		t.Errorf("the kind of a plugin that reserves by what PreFilter left is %d", got)
	}
}

func TestAnAttemptEndsWithTheNextDecision(t *testing.T) {
	s := newScene(t, 3, 0)
	request := Request{Plan: s.plan, State: schedframework.NewCycleState(), Pod: s.pod("a")}
	s.expect(s.pod("a"), None)
	old := s.engine.Decide(s.ctx, request)
	fit, _ := old.Fit()
	_ = s.engine.Decide(s.ctx, request)
	expectPanics(t, old, fit)
}

func TestAnAttemptEndsWithTheNextChangeOfTheSnapshot(t *testing.T) {
	s := newScene(t, 3, 0)
	s.expect(s.pod("a"), None)
	old := s.engine.Decide(s.ctx, Request{Plan: s.plan, State: schedframework.NewCycleState(), Pod: s.pod("a")})
	fit, _ := old.Fit()
	s.cache.AddNode(logr.Discard(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	if old.Reason() != None || fit.Len() != 3 {
		t.Errorf("the outcome is %q with %d nodes", old.Reason(), fit.Len())
	}
	if err := s.cache.UpdateSnapshot(logr.Discard(), s.snapshot); err != nil {
		t.Fatal(err)
	}
	expectPanics(t, old, fit)
}

// expectPanics expects that an attempt is out of date.
func expectPanics(t *testing.T, old Attempt, fit Fit) {
	t.Helper()
	for name, use := range map[string]func(){
		"Reason": func() { _ = old.Reason() },
		"State":  func() { _ = old.State() },
		"Take":   func() { _, _ = fit.Take(t.Context(), 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of an attempt that is out of date is no panic", name)
				}
			}()
			use()
		}()
	}
}

// annotated is a node-local plugin that reads an annotation.
type annotated struct{ scored }

func (*annotated) NodeLocalKey(pod *corev1.Pod) (string, bool) { return pod.Annotations["tier"], true }

func (*annotated) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.NodeInfo) (int64, *fwk.Status) {
	return int64(len(pod.Annotations["tier"])), nil
}

// TestPluginsGetTheWholePod has a plugin that reads what a class does not keep of its pods.
func TestPluginsGetTheWholePod(t *testing.T) {
	s := newScene(t, 3, 0)
	s.plan = s.newPlan("mine", &annotated{})
	for range 2 { // a new class, and a known one
		pod := s.pod("a")
		pod.Annotations = map[string]string{"tier": "gold"}
		if err := s.cache.UpdateSnapshot(logr.Discard(), s.snapshot); err != nil {
			t.Fatal(err)
		}
		fit, ok := s.engine.Decide(s.ctx, Request{Plan: s.plan, State: schedframework.NewCycleState(), Pod: pod}).Fit()
		if !ok {
			t.Fatal("the pod fits nowhere")
		}
		top, err := fit.Top(s.ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		const want = 2 * int64(len("gold"))
		if fit.Total() != want || len(top[0].Scores) != 1 || top[0].Scores[0].Score != want {
			t.Errorf("the total is %d, and the scores are %+v, want %d", fit.Total(), top[0], want)
		}
	}
	if n := s.engine.classes.residents.len(); n != 1 {
		t.Errorf("%d classes were made", n)
	}
}
