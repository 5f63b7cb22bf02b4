// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/sidebyside"
)

func TestTheSameSpecAndSeedMovesNothing(t *testing.T) {
	for _, path := range []sidebyside.Path{sidebyside.FastPath, sidebyside.ScalarPath} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s/%d", path, seed), func(t *testing.T) {
				c := newCluster(t, path)
				pending := c.fill(rand.New(rand.NewPCG(seed, 1)), 12, 90)
				// Another object with the same configuration: an instance of its own.
				same := *c.Profile.Config
				r := simulate.Request{Pods: all(), Pending: pending,
					Changes: map[string]*resolve.Profile{"mine": &same}, Seed: seed}
				status := c.simulate(r)
				if status.Pods != 90 || status.New.Moved != 0 || len(status.New.MovedByOwner) != 0 {
					t.Errorf("moved %d of %d: %+v", status.New.Moved, status.Pods, status.New.MovedByOwner)
				}
				current := status.Current
				current.Moved, current.MovedByOwner = 0, nil // compared with where the pods are
				if diff := cmp.Diff(current, *status.New); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(status, c.simulate(r)); diff != "" {
					t.Errorf("a second simulation differs: %s", diff)
				}
			})
		}
	}
}

func TestDecisionsAreAmongTheBestOfAllNodes(t *testing.T) {
	for seed := range uint64(4) {
		c := newCluster(t, sidebyside.FastPath)
		random := rand.New(rand.NewPCG(seed, 2))
		c.fill(random, 12, 40)
		k := c.fork()
		cfg, err := k.Profile("mine")
		c.must(err)
		instance, err := k.Instance(t.Context(), cfg)
		c.must(err)
		s := simulate.NewSequence(k, seed)
		placed := 0
		for i := range 60 {
			p := randomPod(random, 1000+i)
			d, err := s.Decide(t.Context(), cfg, p)
			all, scalarErr := k.Decide(t.Context(), instance, p)
			if simulate.Refused(err) != simulate.Refused(scalarErr) || err != nil && !simulate.Refused(err) {
				t.Fatalf("%s: %v; with all nodes scored: %v", p.Name, err, scalarErr)
			}
			if err != nil {
				continue
			}
			best, own := int64(-1), int64(-1)
			for _, node := range all.Scores {
				best = max(best, node.TotalScore)
				if node.Name == d.SuggestedHost {
					own = node.TotalScore
				}
			}
			if own != best {
				t.Fatalf("%s is on %s with %d, the best has %d", p.Name, d.SuggestedHost, own, best)
			}
			c.must(s.Assume(t.Context(), d))
			placed++
		}
		if placed == 0 {
			t.Error("no pod was placed")
		}
		c.must(s.TakeBack(t.Context()))
	}
}

func TestASimulationLeavesNoTrace(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	pending := c.fill(rand.New(rand.NewPCG(1, 3)), 6, 60)
	c.EndPreemptions() // their metrics are not the simulation's
	before, metricsBefore := c.Cache.Dump(), gather(t)
	status := c.simulate(simulate.Request{Pods: all(), Pending: pending,
		Changes: map[string]*resolve.Profile{"mine": resolved(t, binpack)}})
	if status.New.Moved == 0 || status.New.Unplaced == 0 {
		t.Errorf("the test should move pods and refuse some: %+v", status.New)
	}
	if diff := cmp.Diff(metricsBefore, gather(t)); diff != "" {
		t.Errorf("the metrics have changed: %s", diff)
	}
	after := c.Cache.Dump()
	for name, node := range before.Nodes {
		if len(node.Pods) != len(after.Nodes[name].Pods) ||
			node.Requested.MilliCPU != after.Nodes[name].Requested.MilliCPU {
			t.Errorf("node %s has changed", name)
		}
	}
}

// gather returns the metrics of the scheduler as text, including those about caches and memory.
func gather(t *testing.T) map[string]string {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "scheduler_") || strings.HasPrefix(family.GetName(), "livesched_") {
			found[family.GetName()] = family.String()
		}
	}
	return found
}

func TestBinPackingUsesFewerNodes(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	for i := range 6 {
		c.node(fmt.Sprintf("n%d", i), fmt.Sprintf("z%d", i%3), "pool")
	}
	for i := range 6 {
		c.run(pod("web", i, "1", "1Gi"), fmt.Sprintf("n%d", i))
	}
	status := c.simulate(simulate.Request{Pods: all(),
		Changes: map[string]*resolve.Profile{"mine": resolved(t, binpack)}})
	if status.Actual.NodesUsed != 6 || status.Current.NodesUsed != 6 || status.New.NodesUsed != 1 {
		t.Errorf("nodes used: %d, %d, %d", status.Actual.NodesUsed, status.Current.NodesUsed, status.New.NodesUsed)
	}
	if status.Actual.ZoneSkewMax != 0 || status.New.ZoneSkewMax != 6 {
		t.Errorf("zone skew: %d, %d", status.Actual.ZoneSkewMax, status.New.ZoneSkewMax)
	}
	want := []v1alpha1.ResourceUtilization{{Resource: "cpu", MeanPermille: 125, StddevPermille: 280},
		{Resource: "memory", MeanPermille: 63, StddevPermille: 140}}
	if diff := cmp.Diff(want, status.New.Utilization); diff != "" {
		t.Error(diff)
	}
	moved := status.New.MovedByOwner
	if len(moved) != 1 || moved[0].Kind != "Deployment" || moved[0].Name != "web" || moved[0].Pods != status.New.Moved {
		t.Errorf("moved %d: %+v", status.New.Moved, moved)
	}
	p := status.Profiles
	if len(p) != 1 || p[0].SchedulerName != "mine" || p[0].Pods != 6 || p[0].Current == p[0].New ||
		p[0].ExtendersNotCalled {
		t.Errorf("profiles: %+v", p)
	}
}

func TestOutcomesHaveTheRoomOfEachNode(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	for i := range 3 {
		c.node(fmt.Sprintf("n%d", i), fmt.Sprintf("z%d", i), "pool")
		c.run(pod("web", i, "1", "1Gi"), fmt.Sprintf("n%d", i))
	}
	request := simulate.Request{Pods: all(), Changes: map[string]*resolve.Profile{"mine": resolved(t, binpack)},
		Nodes: simulate.Nodes{Add: []simulate.Addition{{Like: "n2", Count: 1}}}}
	if status := c.simulate(request); status.New.NodeAllocations != nil {
		t.Errorf("the room of nodes without a question: %+v", status.New.NodeAllocations)
	}
	request.NodeAllocations = true
	status := c.simulate(request)
	// used returns the sum, the largest number and the number of the requested CPUs of nodes.
	used := func(nodes []v1alpha1.NodeAllocation) (sum, most int64, count int) {
		for i := range nodes {
			cpus := nodes[i].Requested[corev1.ResourceCPU]
			sum, most = sum+cpus.Value(), max(most, cpus.Value())
		}
		return sum, most, len(nodes)
	}
	for name, test := range map[string]struct {
		outcome *v1alpha1.SimulationOutcome
		most    int64
		nodes   int
	}{"actual": {&status.Actual, 1, 3}, "current": {&status.Current, 1, 4}, "new": {status.New, 3, 4}} {
		sum, most, nodes := used(test.outcome.NodeAllocations)
		if sum != 3 || most != test.most || nodes != test.nodes {
			t.Errorf("%s: %d CPUs, at most %d on one of %d nodes", name, sum, most, nodes)
		}
	}
	first := status.New.NodeAllocations[0]
	if first.Pool != "pool" || !strings.HasPrefix(first.Name, "added-") || first.Allocatable.Cpu().IsZero() {
		t.Errorf("the first node by name: %+v", first)
	}
}

func TestSelections(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	c.node("b", "z", "p")
	for i := range 4 {
		c.run(pod("web", i, "100m", "1Mi"), "a")
	}
	daemon, theirs, ending := pod("daemon", 4, "1m", "1Mi"), pod("theirs", 5, "1m", "1Mi"),
		pod("ending", 6, "1m", "1Mi")
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	theirs.Spec.SchedulerName = "theirs"
	ending.DeletionTimestamp = ptr.To(metav1.Now())
	for _, p := range []*corev1.Pod{daemon, theirs, ending} {
		c.run(p, "a")
	}
	// The pod that was created first was scheduled last.
	late := pod("late", -1, "100m", "1Mi")
	late.Namespace = "other"
	late.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Unix(1800000000, 0)}}
	c.run(late, "b")
	waiting, gated := pod("waiting", 7, "100m", "1Mi"), pod("gated", 8, "100m", "1Mi")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	pending := []*corev1.Pod{waiting, gated}

	web, err := labels.Parse("app=web")
	c.must(err)
	for _, test := range []struct {
		name           string
		pods           simulate.Selection
		remove         []string
		want, matching int32
		displaced      int32
	}{
		{name: "all", pods: all(), want: 6, matching: 6},
		{name: "the last", pods: simulate.Selection{Type: v1alpha1.PodsLast, Limit: 2, Labels: labels.Everything()},
			want: 2, matching: 5},
		{name: "pending", pods: simulate.Selection{Type: v1alpha1.PodsPending, Limit: 10, Labels: labels.Everything()},
			want: 1, matching: 1},
		{name: "all up to a limit",
			pods: simulate.Selection{Type: v1alpha1.PodsAll, Limit: 3, Labels: labels.Everything()}, want: 3,
			matching: 6},
		{name: "a namespace", pods: simulate.Selection{Type: v1alpha1.PodsAll, Limit: 9, Namespace: "other",
			Labels: labels.Everything()}, want: 1, matching: 1},
		{name: "labels", pods: simulate.Selection{Type: v1alpha1.PodsAll, Limit: 9, Labels: web}, want: 4, matching: 4},
		{name: "pods on removed nodes",
			pods:   simulate.Selection{Type: v1alpha1.PodsPending, Limit: 1, Labels: labels.Everything()},
			remove: []string{"a"},
			want:   5, matching: 5, displaced: 2},
	} {
		status := c.simulate(simulate.Request{Pods: test.pods, Pending: pending,
			Nodes: simulate.Nodes{Remove: test.remove}})
		if status.Pods != test.want || status.Matching != test.matching || status.Displaced != test.displaced ||
			status.New != nil {
			t.Errorf("%s: %d of %d pods, %d displaced", test.name, status.Pods, status.Matching, status.Displaced)
		}
		if status.Current.Unplaced != 0 {
			t.Errorf("%s: %+v", test.name, status.Current.UnplacedPods)
		}
	}
}

func TestNodesAreAddedAndRemoved(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	c.node("b", "z", "q")
	for i := range 8 {
		c.run(pod("web", i, "2", "1Gi"), []string{"a", "b"}[i%2])
	}
	waiting := []*corev1.Pod{pod("waiting", 9, "2", "1Gi"), pod("waiting", 10, "2", "1Gi")}
	run := func(nodes simulate.Nodes) *v1alpha1.SimulationStatus {
		return c.simulate(simulate.Request{Pods: all(), Pending: waiting, Nodes: nodes})
	}
	if s := run(simulate.Nodes{}); s.Actual.Unplaced != 2 || s.Current.Unplaced != 2 ||
		len(s.Current.UnplacedPods) != 2 ||
		s.Current.UnplacedPods[0].Message != "0/2 nodes are available: 2 Insufficient cpu." {
		t.Errorf("no change: %+v", s)
	}
	if s := run(simulate.Nodes{Add: []simulate.Addition{{Like: "q", Count: 1}}}); s.Nodes != 3 ||
		s.Current.Unplaced != 0 {
		t.Errorf("a node of a pool: %+v", s)
	}
	zone, err := labels.Parse("karpenter.sh/nodepool=q")
	c.must(err)
	if s := run(simulate.Nodes{RemoveLabels: zone}); s.Nodes != 1 || s.Current.Unplaced != 6 || s.Actual.Unplaced != 2 {
		t.Errorf("a pool is removed: %+v", s)
	}
	if s := run(simulate.Nodes{Remove: []string{"a"}, Add: []simulate.Addition{{Like: "a", Count: 2}}}); s.Nodes != 3 ||
		s.Current.Unplaced != 0 {
		t.Errorf("a node is replaced by two: %+v", s)
	}
	_, err = simulate.Run(t.Context(), c.fork(), simulate.Request{Pods: all(), Nodes: simulate.Nodes{
		Remove: []string{"a", "nobody"}, Add: []simulate.Addition{{Like: "nothing", Count: 1}},
	}})
	var invalid *simulate.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 2 || invalid.Fields[0].Field != "spec.nodes.remove[1]" ||
		invalid.Fields[1].Field != "spec.nodes.add[0].like" {
		t.Errorf("got %v", err)
	}
	for like, want := range map[string]string{
		"nothing": "no node and no pool has this name; pools: p, q",
		"pq":      "no node and no pool has this name: did you mean p or q? Pools: p, q",
	} {
		_, err = simulate.Run(t.Context(), c.fork(),
			simulate.Request{Pods: all(), Nodes: simulate.Nodes{Add: []simulate.Addition{{Like: like, Count: 1}}}})
		if !errors.As(err, &invalid) || invalid.Fields[0].Detail != want {
			t.Errorf("%s: got %v", like, err)
		}
	}
}

func TestAddedNodesHaveStaticPods(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	proxy := pod("proxy", 0, "3", "1Mi")
	proxy.OwnerReferences[0].Kind = "Node"
	proxy.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	c.run(proxy, "a")
	c.run(pod("web", 1, "5", "1Mi"), "a")
	waiting := []*corev1.Pod{pod("waiting", 2, "6", "1Mi"), pod("waiting", 3, "5", "1Mi")}
	status := c.simulate(simulate.Request{Pods: all(), Pending: waiting,
		Nodes: simulate.Nodes{Add: []simulate.Addition{{Like: "a", Count: 2}}}})
	if got := status.Current.UnplacedPods; len(got) != 1 || got[0].Name != waiting[0].Name {
		t.Errorf("5 of 8 cpu are left on each new node, but got %+v", status.Current)
	}
}

func TestPodsAreSelectedByTheirNames(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	c.run(pod("web", 1, "1", "1Gi"), "a")
	c.run(pod("web", 2, "1", "1Gi"), "a")
	pending := []*corev1.Pod{pod("web", 3, "1", "1Gi"), pod("web", 4, "1", "1Gi")}
	chosen := all()
	chosen.Names = sets.New("web-abc-2", "web-abc-3", "nobody")
	if s := c.simulate(simulate.Request{Pods: chosen, Pending: pending}); s.Pods != 2 || s.Matching != 2 ||
		s.Actual.Unplaced != 1 || s.Current.Unplaced != 0 {
		t.Errorf("got %+v", s)
	}
	asked := &v1alpha1.Simulation{
		Spec: v1alpha1.SimulationSpec{Pods: v1alpha1.PodSelection{Names: []string{"web-abc-2"}}}}
	var invalid *simulate.InvalidError
	if _, err := simulate.Parse(asked); !errors.As(err, &invalid) || invalid.Fields[0].Field != "spec.pods.names" {
		t.Errorf("in all namespaces: got %v", err)
	}
	asked.Metadata.Namespace = "default"
	if r, err := simulate.Parse(asked); err != nil || !r.Pods.Names.Has("web-abc-2") {
		t.Errorf("got %v, %v", r.Pods.Names, err)
	}
}

func TestPodsGetAnotherSchedulerName(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	bound, pending := pod("web", 1, "1", "1Gi"), pod("web", 2, "9", "1Gi")
	bound.Spec.SchedulerName, pending.Spec.SchedulerName = "default-scheduler", "default-scheduler"
	c.run(bound, "a")
	chosen := all()
	request := simulate.Request{Pods: chosen, Pending: []*corev1.Pod{pending}}
	if s := c.simulate(request); s.Pods != 0 {
		t.Errorf("pods of another scheduler: got %+v", s)
	}
	request.Pods.SchedulerName = "mine"
	s := c.simulate(request)
	if s.Pods != 2 || s.Current.Unplaced != 1 || s.Current.UnplacedPods[0].Name != pending.Name ||
		len(s.Profiles) != 1 || s.Profiles[0].SchedulerName != "mine" {
		t.Errorf("got %+v", s)
	}
	if bound.Spec.SchedulerName != "default-scheduler" || pending.Spec.SchedulerName != "default-scheduler" {
		t.Error("the pods of the cluster are changed")
	}
	request.Pods.SchedulerName = "min"
	var invalid *simulate.InvalidError
	_, err := simulate.Run(t.Context(), c.fork(), request)
	const want = "no SchedulerProfile has this scheduler name: did you mean mine? The scheduler names are mine"
	if !errors.As(err, &invalid) || invalid.Fields[0].Detail != want {
		t.Errorf("got %v", err)
	}
	request.Pods.SchedulerName, request.Changes = "new", map[string]*resolve.Profile{"new": resolved(t, binpack)}
	if s := c.simulate(request); s.Current.Unplaced != 2 || s.New.Unplaced != 1 {
		t.Errorf("with a new profile: %+v, then %+v", s.Current, s.New)
	}
}

func TestOnlyTheFirstPodsWithoutANodeHaveAReason(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	var pending []*corev1.Pod
	for i := range 25 {
		pending = append(pending, pod("web", i, "9", "1Gi"))
	}
	s := c.simulate(simulate.Request{Pods: all(), Pending: pending})
	reasons := 0
	for _, p := range s.Current.UnplacedPods {
		if p.Message != "" {
			reasons++
		}
	}
	if len(s.Current.UnplacedPods) != 25 || reasons != 20 {
		t.Errorf("%d pods, %d with a reason", len(s.Current.UnplacedPods), reasons)
	}
}

func TestAZoneWithoutNodesDoesNotCount(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	for _, zone := range []string{"a", "b", "c"} {
		c.node(zone, zone, "pool")
		for i := range 3 {
			c.run(pod("app", 10*int(zone[0])+i, "100m", "1Mi"), zone)
		}
	}
	s := c.simulate(simulate.Request{Pods: all(), Nodes: simulate.Nodes{Remove: []string{"c"}}})
	if s.Actual.ZoneSkewMax != 0 || s.Current.ZoneSkewMax != 1 || s.Current.NodesUsed != 2 {
		t.Errorf("zone skew: %d, then %d on %d nodes", s.Actual.ZoneSkewMax, s.Current.ZoneSkewMax, s.Current.NodesUsed)
	}
	s = c.simulate(simulate.Request{Pods: all(), Nodes: simulate.Nodes{Remove: []string{"b", "c"}}})
	if s.Actual.ZoneSkewMax != 0 || s.Current.ZoneSkewMax != 0 || s.Current.NodesUsed != 1 {
		t.Errorf("zone skew: %d, then %d on %d nodes", s.Actual.ZoneSkewMax, s.Current.ZoneSkewMax, s.Current.NodesUsed)
	}
}

func TestARemovedProfilePlacesNothing(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	c.run(pod("web", 1, "1", "1Gi"), "a")
	status := c.simulate(simulate.Request{Pods: all(), Changes: map[string]*resolve.Profile{"mine": nil}})
	if status.New.Unplaced != 1 ||
		!strings.Contains(status.New.UnplacedPods[0].Message, `no profile has the scheduler name "mine"`) {
		t.Errorf("got %+v", status.New)
	}
}

func TestASimulationEndsWithItsContext(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.fill(rand.New(rand.NewPCG(1, 4)), 3, 20)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller has gone")
	cancel(gone)
	if _, err := simulate.Run(ctx, c.fork(), simulate.Request{Pods: all()}); !errors.Is(err, gone) &&
		!errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCapacity(t *testing.T) {
	c := newCluster(t, sidebyside.FastPath)
	c.node("a", "z", "p")
	c.node("b", "z", "p")
	c.node("c", "z", "q")
	c.run(pod("web", 1, "3", "1Gi"), "a")
	count := func(r simulate.CountRequest) *v1alpha1.CapacityStatus {
		t.Helper()
		status, err := simulate.Count(t.Context(), c.fork(), r)
		c.must(err)
		return status
	}
	like := pod("new", 2, "3", "1Gi")
	got := count(simulate.CountRequest{Pod: like, Limit: 100})
	pools := []v1alpha1.PoolCapacity{{Pool: "p", Pods: 3, Nodes: 2}, {Pool: "q", Pods: 2, Nodes: 1}}
	if diff := cmp.Diff(pools, got.Pools); diff != "" || got.Pods != 5 || got.Nodes != 3 || got.ClusterNodes != 3 ||
		got.Limited || got.Profile != "mine" {
		t.Errorf("got %+v %s", got, diff)
	}
	if n := got.Next; n == nil || n.Verdict != v1alpha1.VerdictFitsWhenFreed || len(n.Groups) != 1 ||
		n.Groups[0].Refusals[0].Plugin != "NodeResourcesFit" || len(n.Suggestions) == 0 {
		t.Errorf("next: %+v", n)
	}
	if got := count(simulate.CountRequest{Pod: like, Limit: 4}); got.Pods != 4 || !got.Limited || got.Next != nil {
		t.Errorf("with a limit: %+v", got)
	}
	if got := count(simulate.CountRequest{Pod: like, Limit: 100,
		Nodes: simulate.Nodes{Add: []simulate.Addition{{Like: "q", Count: 2}}}}); got.Pods != 9 ||
		got.ClusterNodes != 5 {
		t.Errorf("with more nodes: %+v", got)
	}
	like.Spec.SchedulerName = "theirs"
	var invalid *simulate.InvalidError
	if _, err := simulate.Count(t.Context(), c.fork(), simulate.CountRequest{Pod: like}); !errors.As(err, &invalid) {
		t.Errorf("got %v", err)
	}
}
