// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/workload"
)

// another returns a pod with a name of its own.
func (a *alike) another(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	a.made++
	pod.Name = fmt.Sprintf("pod-%d", a.made)
	pod.UID = types.UID(pod.Name)
	return pod
}

// refusal is the error of a pod that fits nowhere, with the state that PreFilter has left.
type refusal struct {
	*schedframework.FitError
	err   error
	state *schedframework.CycleState
}

// version is the version of the statuses.
func (r refusal) version() uint64 { return framework.ReadRefusals(r.state).Version }

// refused schedules a pod like this one, which fits nowhere.
func (a *alike) refused(like *corev1.Pod) refusal {
	a.t.Helper()
	a.must(a.cache.UpdateSnapshot(klog.FromContext(a.ctx), a.snapshot))
	state := schedframework.NewCycleState()
	pod := a.another(like)
	_, err := a.ours.Decide(a.ctx, a.profile, state, pod)
	var fitError *schedframework.FitError
	if !errors.As(err, &fitError) || fitError.Pod != pod {
		a.t.Fatalf("got %v, want an error that says why the pod fits nowhere", err)
	}
	return refusal{fitError, err, state}
}

// bigPod returns a pod that requests more than a node has.
func bigPod() *corev1.Pod {
	pod := podOf("basic", 0)
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = workload.Node(0).
		Status.Allocatable[corev1.ResourceCPU]
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = workload.Node(0).
		Status.Allocatable[corev1.ResourceMemory]
	pod.Spec.Overhead = pod.Spec.Containers[0].Resources.Requests
	return pod
}

func TestUnschedulableClassIsRejectedFromTheCacheUntilAChange(t *testing.T) {
	w := newAlike(t, 2)
	first, second := w.refused(bigPod()), w.refused(bigPod())
	if first.Diagnosis.NodeToStatus != second.Diagnosis.NodeToStatus {
		t.Error("the nodes were asked about again")
	}
	if first.version() == 0 || first.version() != second.version() {
		t.Errorf("the same statuses have the versions %d and %d", first.version(), second.version())
	}
	first.Diagnosis.PostFilterMsg, second.Diagnosis.PostFilterMsg = "preemption: in vain", "preemption: in vain"
	if got, want := second.err.Error(), first.err.Error(); got != want || second.FitError.Error() != want ||
		second.NumAllNodes != 2 {
		t.Errorf("the first pod was told %q, the second %q", want, got)
	}
	if _, err := second.state.Read("PreFilterNodeResourcesFit"); err == nil {
		t.Error("PreFilter has run although nothing has read the state")
	}
	w.must(framework.RunDeferredPreFilter(w.ctx, second.state))
	if _, err := second.state.Read("PreFilterNodeResourcesFit"); err != nil {
		t.Errorf("preemption would miss what PreFilter leaves: %v", err)
	}
	first.Diagnosis.UnschedulablePlugins.Insert("First")
	second.Diagnosis.UnschedulablePlugins.Insert("Second")
	if third := w.refused(bigPod()); third.Diagnosis.UnschedulablePlugins.HasAny("First", "Second") {
		t.Error("pods share the names of the plugins that refused them")
	}
}

func TestUnschedulableClassIsCheckedAgainOnChangedNodesOnly(t *testing.T) {
	w := newAlike(t, 4)
	for _, node := range w.nodes {
		w.place(w.another(podOf("basic", 0)), node.Name, cache.Class{})
	}
	_ = w.refused(fullPod())
	asked := metrics.Decisions.WithLabelValues(metrics.PathScalar, string(fastpath.NoFit))
	before := testutil.ToFloat64(asked)
	w.place(w.another(podOf("basic", 1)), workload.NodeName(0), cache.Class{})
	first := w.refused(fullPod())
	w.place(w.another(podOf("basic", 1)), workload.NodeName(2), cache.Class{})
	if second := w.refused(fullPod()); second.version() != first.version() || first.version() == 0 {
		t.Error("the version is another one though all codes are what they were: what preemption made of them is of " +
			"no use any more")
	}
	tainted := w.nodes[1].DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	w.cache.UpdateNode(klog.FromContext(w.ctx), w.nodes[1], tainted)
	third := w.refused(fullPod())
	if third.version() == first.version() {
		t.Error("the version is the same though a code is not: what preemption made of them would count")
	}
	if n := testutil.ToFloat64(asked) - before; n != 0 {
		t.Errorf("all nodes were asked about %v times", n)
	}
	const want = "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu, 3 Insufficient " +
		"memory."
	if got := third.err.Error(); got != want || third.FitError.Error() != want {
		t.Errorf("the pod is told %q, want %q", got, want)
	}
	if got := third.Diagnosis.UnschedulablePlugins; !got.Equal(sets.New("TaintToleration", "NodeResourcesFit")) {
		t.Errorf("it is refused by %v", sets.List(got))
	}
	w.nodes = append(w.nodes, workload.Node(4))
	w.cache.AddNode(klog.FromContext(w.ctx), w.nodes[4])
	w.place(w.another(podOf("basic", 0)), w.nodes[4].Name, cache.Class{})
	if n := w.refused(fullPod()).Diagnosis.NodeToStatus.Len(); n != 5 {
		t.Errorf("%d nodes refuse after one has come", n)
	}
}

// crowded is a world in which all nodes but the last are full.
func crowded(t *testing.T) (w *alike, last string) {
	const nodes = 12
	w = newAlike(t, nodes)
	for i := range nodes - 1 {
		w.place(w.another(fullPod()), workload.NodeName(i), cache.Class{})
	}
	return w, workload.NodeName(nodes - 1)
}

func TestRejectionsThatDependOnOtherNodesAreNotCached(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	expect := func(w *alike, pod *corev1.Pod, node, want string) {
		t.Helper()
		if got := w.refused(pod).Diagnosis.NodeToStatus.Get(node).Message(); got != want {
			t.Errorf("the node refuses with %q, want %q", got, want)
		}
	}
	x := podOf("basic", 0)
	x.Labels = selector.MatchLabels

	t.Run("a constraint behind which there is another", func(t *testing.T) {
		w, last := crowded(t)
		for i, node := range w.nodes[:len(w.nodes)-1] {
			racked := node.DeepCopy()
			racked.Labels["rack"] = "r"
			w.cache.UpdateNode(klog.FromContext(w.ctx), node, racked)
			w.nodes[i] = racked
		}
		pod := x.DeepCopy()
		for _, key := range []string{zone, "rack"} {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints,
				corev1.TopologySpreadConstraint{
					MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
				})
		}
		w.place(w.another(x), workload.NodeName(2), cache.Class{}) // in the zone of the last node
		expect(w, pod, last, "node(s) didn't match pod topology spread constraints")
		w.place(w.another(x), workload.NodeName(0), cache.Class{})
		w.place(w.another(x), workload.NodeName(1), cache.Class{})
		expect(w, pod, last, "node(s) didn't match pod topology spread constraints (missing required label)")
	})
	t.Run("a pod that it wants to keep away from, beside one that keeps it away", func(t *testing.T) {
		w, last := crowded(t)
		away := func(key string) *corev1.Affinity {
			return &corev1.Affinity{
				PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
						{LabelSelector: selector, TopologyKey: key},
					}}}
		}
		guard := podOf("basic", 1)
		guard.Labels, guard.Spec.Affinity = map[string]string{"app": "guard"}, away(hostname)
		w.place(w.another(guard), last, cache.Class{})
		w.place(w.another(x), workload.NodeName(2), cache.Class{}) // in the zone of the last node
		pod := x.DeepCopy()
		pod.Spec.Affinity = away(zone)
		expect(w, pod, last, "node(s) didn't match pod anti-affinity rules")
		w.must(w.cache.RemovePod(klog.FromContext(w.ctx), w.pods[len(w.pods)-1]))
		expect(w, pod, last, "node(s) didn't satisfy existing pods anti-affinity rules")
	})
}

func TestChangedNamespacesInvalidateRejections(t *testing.T) {
	w := newAlike(t, 2)
	tier := func(labels map[string]string) {
		w.setNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "friends", Labels: labels}})
	}
	resident := func(namespace, app string, node int) {
		pod := w.another(podOf("basic", 0))
		pod.Namespace, pod.Labels = namespace, map[string]string{"app": app}
		w.place(pod, workload.NodeName(node), cache.Class{})
	}
	term := func(app string, namespaces *metav1.LabelSelector) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			NamespaceSelector: namespaces, TopologyKey: hostname,
		}
	}
	// The pod must be near a friend of the front, but not near a foe.
	pod := podOf("basic", 0)
	pod.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			term("friend", &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}),
		}},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term("foe", nil)}},
	}
	tier(nil)
	resident("friends", "friend", 0)
	resident(pod.Namespace, "foe", 0)
	expect := func(want string) {
		t.Helper()
		for range 2 {
			if got := w.refused(pod).err.Error(); got != want {
				t.Errorf("the pod is told %q, want %q", got, want)
			}
		}
	}
	expect("0/2 nodes are available: 2 node(s) didn't match pod affinity rules.")
	tier(map[string]string{"tier": "front"})
	expect("0/2 nodes are available: 1 node(s) didn't match pod affinity rules, 1 node(s) didn't match pod " +
		"anti-affinity rules.")
}

func TestRejectionsByLaterNominatedPodsAreNotCached(t *testing.T) {
	w := newAlike(t, 2)
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	pod := w.another(bigPod())
	unfit, ok := w.ours.attemptFast(w.ctx, request{w.profile, schedframework.NewCycleState(), pod}, nil).Unfit()
	if !ok {
		t.Fatal("the pod fits")
	}
	// In between, a pod is nominated for a node.
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{w.another(bigPod())}
	state := schedframework.NewCycleState()
	_, err := w.ours.newScalar(request{w.profile, state, pod}).decide(w.ctx)
	keepExplanation(w.ctx, unfit, state, err)
	if unfit.Explained() {
		t.Error("what was said with regard to the nominated pod is kept")
	}
}

func TestUnschedulableClassIsCheckedAgainOnNodesWithNewNominations(t *testing.T) {
	w := newAlike(t, 4)
	for _, node := range w.nodes[1:] {
		w.place(w.another(podOf("basic", 0)), node.Name, cache.Class{})
	}
	promise := func(node int, pods ...*corev1.Pod) { w.handle.nominated[workload.NodeName(node)] = pods }
	// Pods that take all CPU, or all memory, of a node, and little else.
	taking := func(all corev1.ResourceName) *corev1.Pod {
		pod := w.another(podOf("basic", 0))
		pod.Spec.Containers[0].Resources.Requests[all] = workload.Node(0).Status.Allocatable[all]
		return pod
	}
	wide, fat, small := taking(corev1.ResourceCPU), taking(corev1.ResourceMemory), w.another(podOf("basic", 1))
	asked := metrics.Decisions.WithLabelValues(metrics.PathScalar, string(fastpath.NoFit))
	before := testutil.ToFloat64(asked)
	expect := func(when string, scalar float64, want string) {
		t.Helper()
		if got := w.refused(wide).err.Error(); got != "0/4 nodes are available: "+want {
			t.Errorf("%s: the pod is told %q, want %q", when, got, want)
		}
		if n := testutil.ToFloat64(asked) - before; n != scalar {
			t.Errorf("%s: all nodes were asked about %v times", when, n)
		}
		before = testutil.ToFloat64(asked)
	}
	const cpu, memory = "4 Insufficient cpu.", "1 Insufficient memory, 4 Insufficient cpu."
	promise(0, small) // the only node with room
	expect("at first", 1, cpu)
	expect("as before", 0, cpu)
	promise(3, fat)
	expect("a second node is promised", 0, memory)
	delete(w.handle.nominated, workload.NodeName(3))
	expect("it is not any more", 0, cpu)
	promise(2, small)
	expect("a third node is promised", 0, cpu)
	promise(2, small, fat)
	expect("that node is promised to another one, too", 0, memory)
	w.place(w.another(podOf("basic", 1)), workload.NodeName(2), cache.Class{})
	w.place(w.another(podOf("basic", 1)), workload.NodeName(3), cache.Class{})
	expect("that node has changed", 0, memory)
	delete(w.handle.nominated, workload.NodeName(2))
	expect("that node is promised to nobody", 0, cpu)
	w.place(w.another(podOf("basic", 1)), workload.NodeName(0), cache.Class{})
	promise(0, fat)
	expect("the first node has changed and is promised to another one", 0, memory)
	clear(w.handle.nominated)
	expect("no node is promised", 0, cpu)
}

func TestPreemptionKnowsPodsThatDependOnTheNodeOnly(t *testing.T) {
	w := newAlike(t, 3)
	for _, node := range w.nodes {
		w.place(w.another(podOf("basic", 0)), node.Name, cache.Class{})
	}
	classOf := func(pod *corev1.Pod) uint64 {
		return framework.ReadRefusals(w.refused(pod).state).Class
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	x := fullPod()
	x.Labels = selector.MatchLabels
	spread, away, near := x.DeepCopy(), x.DeepCopy(), x.DeepCopy()
	spread.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{MaxSkew: 9, TopologyKey: zone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector},
	}
	terms := []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: zone}}
	away.Spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	near.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}

	class := classOf(x)
	if class == 0 || classOf(x) != class || classOf(bigPod()) == class {
		t.Errorf("pods of one class are of %d and %d, another is of %d", class, classOf(x), classOf(bigPod()))
	}
	if classOf(away) == 0 {
		t.Error("a pod that wants to keep away from others is said to do so where there are none")
	}
	versions := sets.New[uint64]()
	for name, pod := range map[string]*corev1.Pod{"spread": spread, "near others": near} {
		for _, again := range []bool{false, true} {
			r := framework.ReadRefusals(w.refused(pod).state)
			if r.Class != 0 {
				t.Errorf("to a pod that has to be %s other nodes matter", name)
			}
			if r.Version == 0 || versions.Has(r.Version) != again {
				t.Errorf("version %d of the statuses of a pod that has to be %s, again: %v", r.Version, name, again)
			}
			versions.Insert(r.Version)
		}
	}
	small := podOf("basic", 0)
	small.Labels = selector.MatchLabels
	w.place(w.another(small), w.nodes[0].Name, cache.Class{})
	if classOf(away) != 0 {
		t.Error("to a pod that has to keep away from others it matters where these are")
	}
	guard := podOf("basic", 0)
	guard.Spec.Affinity = away.Spec.Affinity
	w.place(w.another(guard), w.nodes[1].Name, cache.Class{})
	if classOf(x) != 0 {
		t.Error("to a pod that is to be kept away it matters where the others are")
	}
}

func TestNodesWithReservedRoomAreSkipped(t *testing.T) {
	w := newAlike(t, 2)
	for _, free := range []int{2, 1, 0} {
		pod := w.another(podOf("basic", 0))
		reason := w.decide(fmt.Sprintf("%d nodes are free", free), w.profile, pod)
		if want := map[bool]fastpath.Reason{true: fastpath.None, false: fastpath.NoFit}[free > 0]; reason != want {
			t.Fatalf("%d nodes are free: %q", free, reason)
		}
		w.handle.nominated[workload.NodeName(free-1)] = []*corev1.Pod{w.another(fullPod())}
	}
}

func TestPodsThatNameTheirNodeRespectItsNominatedPods(t *testing.T) {
	w := newAlike(t, 2)
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{w.another(fullPod())}
	expect := func(kind string, node int, want fastpath.Reason) {
		t.Helper()
		pod := w.another(podOf(kind, 0))
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{}
		}
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
						Values: []string{workload.NodeName(node)}},
				}}},
			}}
		if reason := w.decide(kind, w.profile, pod); reason != want {
			t.Errorf("%s on node %d: %q, want %q", kind, node, reason, want)
		}
	}
	expect("basic", 0, fastpath.NoFit)
	expect("basic", 1, fastpath.None)
	expect("anti", 1, fastpath.None)
}

// fullPod returns a pod that fills a node.
func fullPod() *corev1.Pod {
	pod := bigPod()
	pod.Spec.Overhead = nil
	return pod
}

// Pods of few classes, most of which fit nowhere, come while nodes and other pods change: the fast
// path evaluates only nodes that have changed since the last pod of the class.
func TestCachedRejectionsMatchTheScalarPath(t *testing.T) {
	const worlds, steps = 8, 600
	total := outcomes{}
	for i := range uint64(worlds) {
		w := newWorld(t, seed+i, 0)
		w.rarity, w.plain = 1+int(i%3)*10, i%2 == 0
		w.populate(30 + w.IntN(40))
		for range 5 {
			w.templates = append(w.templates, w.large())
		}
		w.build()
		for step := range steps {
			for w.chance(60) {
				w.disturb()
			}
			for len(w.handle.nominated) > 0 && w.chance(60) {
				delete(w.handle.nominated, pick(w.generator, slices.Sorted(maps.Keys(w.handle.nominated))))
			}
			for w.chance(40) {
				node := pick(w.generator, w.nodes).Name
				w.handle.nominated[node] = append(w.handle.nominated[node], w.another())
			}
			if w.chance(10) { // disturb makes small ones
				w.templates[w.IntN(len(w.templates))] = w.large()
			}
			w.decide(fmt.Sprintf("world %d, step %d", seed+i, step), w.profiles[w.IntN(2)], w.another())
		}
		for key, n := range w.seen {
			total[key] += n
		}
	}
	t.Logf("%d decisions:%s", worlds*steps, total)
	if n := total["not to fit after changes"]; n < 120 {
		t.Errorf("of %d pods only what has changed was asked for", n)
	}
	if n := total["known not to fit beside nominated pods"]; n < 250 {
		t.Errorf("of %d pods it was known beside nominated pods", n)
	}
}

// large returns a template of pods that fit on no node, or on few.
func (w *world) large() *corev1.Pod {
	pod := w.template()
	pod.Spec.NodeName, pod.Annotations = "", nil
	if requests := pod.Spec.Containers[0].Resources.Requests; requests != nil {
		requests[corev1.ResourceCPU] = *resource.NewQuantity(int64(pick(w.generator, []int{3, 100, 100})),
			resource.DecimalSI)
	}
	return pod
}

// TestTheTermsOfANominatedPodDistinguishLabels nominates a pod that was never decided about. Its
// anti-affinity reads a label that no selector has read before.
func TestTheTermsOfANominatedPodDistinguishLabels(t *testing.T) {
	w := newAlike(t, 2)
	special := func(yes bool) *corev1.Pod {
		pod := w.another(podOf("basic", 0))
		if yes {
			pod.Labels["special"] = "yes"
		}
		return pod
	}
	repels := func(key, value string) *corev1.Pod {
		pod := w.another(podOf("basic", 1))
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname,
				LabelSelector: metav1.SetAsLabelSelector(map[string]string{key: value})}}}}
		return pod
	}
	// InterPodAffinity heeds nominated pods only if terms of a running pod concern the pod, too.
	w.place(repels("app", "basic-0"), workload.NodeName(1), cache.Class{})
	feasible := func(pod *corev1.Pod) int {
		t.Helper()
		w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
		state := schedframework.NewCycleState()
		fast := w.ours.tryFast(w.ctx, w.profile, state, pod)
		if fast.reason == fastpath.NoFit {
			return 0
		}
		if fast.reason != fastpath.None {
			t.Fatalf("the pod takes the scalar path: %s", fast.reason)
		}
		return fast.Feasible
	}
	if n := feasible(special(false)); n != 1 {
		t.Fatalf("the pod fits %d nodes, want the one without a pod that keeps it away", n)
	}
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{repels("special", "yes")}
	if n := feasible(special(false)); n != 1 {
		t.Errorf("the pod fits %d nodes beside a nominated pod that does not concern it", n)
	}
	if n := feasible(special(true)); n != 0 {
		t.Errorf("the pod fits %d nodes, although a nominated pod keeps it away", n)
	}
}
