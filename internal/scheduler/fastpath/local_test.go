// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// realScene is a scene with kube-scheduler's plugins. Without args, the twin of the resource
// plugins does not know how they score.
func realScene(t *testing.T, nodes, maxBytes int, withArgs bool, outOfTree ...fwk.Plugin) *scene {
	s := newScene(t, 0, maxBytes)
	for i := range nodes {
		s.cache.AddNode(logr.Discard(), realNode(i))
	}
	cfg, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]runtime.Object{}
	for _, pc := range cfg.Profiles[0].PluginConfig {
		args[pc.Name] = pc.Args
	}
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	instances := map[string]fwk.Plugin{}
	add := func(pl fwk.Plugin, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		instances[pl.Name()] = pl
	}
	add(nodeaffinity.New(s.ctx, args[names.NodeAffinity], noDevices{}, gates))
	add(tainttoleration.New(s.ctx, nil, noDevices{}, gates))
	add(nodeports.New(s.ctx, nil, noDevices{}, gates))
	add(noderesources.NewFit(s.ctx, args[names.NodeResourcesFit], noDevices{}, gates))
	add(noderesources.NewBalancedAllocation(s.ctx, args[names.NodeResourcesBalancedAllocation], noDevices{}, gates))
	for _, pl := range outOfTree {
		add(pl, nil)
	}
	all := &schedconfig.Plugins{}
	for name := range instances {
		all.MultiPoint.Enabled = append(all.MultiPoint.Enabled, schedconfig.Plugin{Name: name, Weight: 1})
	}
	// Expand requires plugins that every profile has.
	add(queueSort{}, nil)
	add(binder{}, nil)
	all.MultiPoint.Enabled = append(all.MultiPoint.Enabled, schedconfig.Plugin{Name: "Sort"},
		schedconfig.Plugin{Name: "Bind"})
	plugins, err := framework.Expand(all, instances)
	if err != nil {
		t.Fatal(err)
	}
	config := framework.Config{ProfileName: t.Name(), Plugins: plugins, Snapshot: s.snapshot}
	if withArgs {
		config.Args = args
	}
	s.plan = planOf(config)
	return s
}

type queueSort struct{}

func (queueSort) Name() string                        { return "Sort" }
func (queueSort) Less(_, _ fwk.QueuedEntityInfo) bool { return false }

type binder struct{ fwk.BindPlugin }

func (binder) Name() string { return "Bind" }

func realNode(i int) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i),
			Labels: map[string]string{"disk": []string{"ssd", "hdd"}[i%2]}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: quantity(int64(4 + i%3)), corev1.ResourceMemory: quantity(int64(8+i%5) << 30),
			corev1.ResourcePods: quantity(30),
		}},
	}
	if i%4 == 0 {
		node.Status.Allocatable[gpu] = quantity(2)
	}
	return node
}

// asking returns a pod that requests this much CPU.
func (s *scene) asking(milliCPU int) *corev1.Pod {
	pod := s.pod("a")
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(milliCPU), resource.DecimalSI),
	}}}}
	return pod
}

// place assumes a pod on the best node.
func (s *scene) place(pod *corev1.Pod, decision decided) {
	s.Helper()
	pod.Spec.NodeName = s.nodeName(decision.Best.at(0))
	if err := s.cache.AssumePodOfClass(logr.Discard(), pod, decision.Class); err != nil {
		s.Fatal(err)
	}
}

// expectAsAnew expects the decision of a new Engine.
func (s *scene) expectAsAnew(pod *corev1.Pod) decided {
	s.Helper()
	decision := s.expect(pod, None)
	anew, reason := outcome(New(s.snapshot, 0).
		Decide(s.ctx, Request{Plan: s.plan, State: schedframework.NewCycleState(), Pod: pod}))
	if reason != None {
		s.Fatalf("anew the pod takes the scalar path: %s", reason)
	}
	got, want := slices.Sorted(decision.Best.all()), slices.Sorted(anew.Best.all())
	if anew.Feasible != decision.Feasible || !slices.Equal(got, want) {
		s.Fatalf("%d nodes fit, the best are %v; anew %d fit, the best are %v", decision.Feasible, got,
			anew.Feasible, want)
	}
	return decision
}

// evaluations returns how often a plugin of the profile was called at an extension point since the
// last call.
func (s *scene) evaluations(plugin, point string) int {
	s.Helper()
	counter := schedmetrics.PluginEvaluationTotal.WithLabelValues(plugin, point, s.plan.framework.ProfileName())
	n, err := testutil.GetCounterMetricValue(counter)
	if err != nil {
		s.Fatal(err)
	}
	key := plugin + point
	if s.counted == nil {
		s.counted = map[string]int{}
	}
	before := s.counted[key]
	s.counted[key] = int(n)
	return int(n) - before
}

func TestPodsThatDifferInRequestsRunNoPluginAgain(t *testing.T) {
	const nodes = 40
	s := realScene(t, nodes, 0, true)
	s.expect(s.asking(100), None)
	if n := s.evaluations(names.TaintToleration, schedmetrics.Filter); n != nodes {
		t.Fatalf("TaintToleration was asked about %d nodes, want all %d", n, nodes)
	}
	for i := range 30 {
		pod := s.asking(200 + i)
		s.place(pod, s.expect(pod, None))
	}
	for _, plugin := range []string{names.TaintToleration, names.NodeResourcesFit, names.NodePorts} {
		if n := s.evaluations(plugin, schedmetrics.Filter); n != 0 {
			t.Errorf("%s was asked about %d nodes", plugin, n)
		}
	}
	for _, plugin := range []string{names.TaintToleration, names.NodeResourcesBalancedAllocation,
		names.NodeResourcesFit} {
		if n := s.evaluations(plugin, schedmetrics.Score); plugin != names.TaintToleration && n != 0 || n > nodes {
			t.Errorf("%s has scored %d nodes", plugin, n)
		}
	}
	changed := realNode(3)
	changed.Spec.Taints = []corev1.Taint{{Key: "gone", Effect: corev1.TaintEffectNoSchedule}}
	s.cache.UpdateNode(logr.Discard(), realNode(3), changed)
	if got := s.expect(s.asking(100), None); got.Feasible != nodes-1 {
		t.Errorf("%d nodes fit after one was tainted", got.Feasible)
	}
	if n := s.evaluations(names.TaintToleration, schedmetrics.Filter); n != 1 {
		t.Errorf("TaintToleration was asked about %d nodes, want the one that has changed", n)
	}
	if n := len(s.engine.classes.instances[t.Name()].setup.eligibilityRows); n != 1 {
		t.Errorf("%d sets of constraints are kept, want one", n)
	}
}

func TestResourcePluginWithoutArgumentsRuns(t *testing.T) {
	s := realScene(t, 20, 0, false)
	for i := range 10 {
		pod := s.asking(100 * i)
		s.place(pod, s.expect(pod, None))
	}
	if n := s.evaluations(names.NodeResourcesFit, schedmetrics.Filter); n < 20 {
		t.Errorf("NodeResourcesFit was asked about %d nodes", n)
	}
	asked, twin := s, realScene(t, 20, 0, true)
	for i := range 30 {
		pod := asked.asking(100 * (i % 4))
		first := asked.expect(pod, None)
		if i == 0 {
			// The other Engine's cluster gets the pods that the first one has placed, too.
			for _, placed := range asked.placed() {
				if err := twin.cache.AddPod(logr.Discard(), placed); err != nil {
					t.Fatal(err)
				}
			}
		}
		best := asked.bestNames(first)
		second := twin.expect(pod.DeepCopy(), None)
		if got := twin.bestNames(second); !slices.Equal(got, best) || first.Feasible != second.Feasible {
			t.Fatalf("asked: %d fit, %v are best; worked out: %d fit, %v are best", first.Feasible, best,
				second.Feasible, got)
		}
		asked.place(pod, first)
		if err := twin.cache.AddPod(logr.Discard(), pod); err != nil {
			t.Fatal(err)
		}
	}
}

// placed returns the pods of the snapshot.
func (s *scene) placed() (pods []*corev1.Pod) {
	for slot := range s.snapshot.Slots() {
		for _, pod := range s.snapshot.Info(cache.Slot(slot)).Pods {
			pods = append(pods, pod.GetPod())
		}
	}
	return pods
}

func (s *scene) bestNames(decision decided) (names []string) {
	for slot := range decision.Best.all() {
		names = append(names, s.nodeName(slot))
	}
	slices.Sort(names)
	return names
}

func TestHostPortPluginRuns(t *testing.T) {
	const nodes = 4
	s := realScene(t, nodes, 0, true)
	for i := range nodes {
		pod := s.asking(100)
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{
			{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
		decision := s.expectAsAnew(pod)
		if decision.Feasible != nodes-i {
			t.Fatalf("%d nodes fit, want those %d whose port is free", decision.Feasible, nodes-i)
		}
		s.place(pod, decision)
	}
	if got := s.expectAsAnew(s.asking(100)); got.Feasible != nodes {
		t.Errorf("%d nodes fit a pod without ports", got.Feasible)
	}
}

func TestRowsUsedOnceLendTheirColumns(t *testing.T) {
	s := realScene(t, 30, 0, true)
	g := func() *setup { return s.engine.classes.instances[t.Name()].setup }
	withColumns := func() (n int) {
		for _, l := range g().locals {
			if l.verdict != nil {
				n++
			}
		}
		return n
	}
	for i := range 50 {
		pod := s.asking(i)
		s.place(pod, s.expectAsAnew(pod))
	}
	if n := withColumns(); n != 1 || len(g().locals) != 50 {
		t.Fatalf("%d of %d rows have columns, want the last", n, len(g().locals))
	}
	// The last row keeps its columns when it is used again, and rows that return get their own
	// columns.
	for _, milliCPU := range []int{49, 50, 49, 7, 51, 7, 8, 7, 52, 53, 8, 52, 49} {
		pod := s.asking(milliCPU)
		s.place(pod, s.expectAsAnew(pod))
	}
	kept := 0
	for _, l := range g().locals {
		if l.verdict != nil {
			kept++
		}
	}
	// 49, 7, 8 and 52 have been used again, and 53 has borrowed columns.
	if kept != 5 {
		t.Errorf("%d rows have columns, want 5", kept)
	}
}

func TestColumnsAreLentToOtherProfiles(t *testing.T) {
	s := realScene(t, 30, 0, true)
	mine := s.plan
	other := s.newPlan("other", &scored{})
	for i := range 20 {
		s.plan = []*Plan{mine, other}[i%2]
		pod := s.asking(i)
		s.place(pod, s.expectAsAnew(pod))
	}
}

func TestSharedColumnsAreCountedOnceAndDroppedWithTheLastRow(t *testing.T) {
	const nodes = 50
	s := realScene(t, nodes, 0, true)
	wantGPU := func(milliCPU int) *corev1.Pod {
		pod := s.asking(milliCPU)
		pod.Spec.Containers[0].Resources.Requests[gpu] = quantity(1)
		return pod
	}
	// If the profile lacks DynamicResources, it is unknown whether devices back the resource.
	s.expect(wantGPU(0), Devices)
	before := s.engine.classes.bytes
	for i := range 10 {
		s.expect(s.asking(i), None)
		s.expect(wantGPU(1+i), Devices)
	}
	column := 16*nodes + 24*cap(s.engine.nodes.in)
	if got := s.engine.nodes.size(); got != column {
		t.Errorf("the table has %d bytes of columns, want %d", got, column)
	}
	sum := s.engine.nodes.size()
	for _, c := range s.engine.classes.byID {
		sum += c.bytes
	}
	g := s.engine.classes.instances[t.Name()].setup
	for l := range maps.Values(g.locals) {
		sum += l.bytes
	}
	for c := range maps.Values(g.eligibilityRows) {
		sum += c.bytes
	}
	if s.engine.classes.bytes != sum || sum <= before {
		t.Errorf("%d bytes are held, all there is has %d", s.engine.classes.bytes, sum)
	}
	for s.engine.classes.residents.len() > 0 {
		s.engine.classes.drop(s.engine.classes.residents.victim(nil))
	}
	if s.engine.classes.bytes != 0 || len(g.eligibilityRows) != 0 || len(s.engine.nodes.scalars) != 0 {
		t.Errorf("%d bytes, %d sets of constraints and %d columns have no holder", s.engine.classes.bytes,
			len(g.eligibilityRows), len(s.engine.nodes.scalars))
	}
}

// named returns a term that names a node.
func named(node string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
	}}
}

// requiring returns a pod with a required node affinity.
func (s *scene) requiring(terms ...corev1.NodeSelectorTerm) *corev1.Pod {
	pod := s.asking(1000)
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
	return pod
}

// readsAffinity is a node-local plugin that reads the node affinity of pods labelled so.
type readsAffinity struct{ scored }

func (*readsAffinity) NodeLocalKey(pod *corev1.Pod) (string, bool) {
	if pod.Labels["app"] != "read" || pod.Spec.Affinity == nil {
		return "", true
	}
	return pod.Spec.Affinity.String(), true
}

func TestClassesOfPodsOnTheScalarPathAreBoundedInBytes(t *testing.T) {
	const most = 20
	s := realScene(t, 3, most*4096, true)
	for i := range 10 * most {
		pod := s.asking(i)
		pod.Spec.Containers[0].Resources.Requests[gpu] = quantity(1)
		s.expect(pod, Devices)
		if held := s.engine.classes.residents.len(); held > most {
			t.Fatalf("%d classes are held after %d pods, the bound is %d", held, i+1, most)
		}
	}
}

func TestPodsThatNameTheirNodesForAPluginThatReadsTheNames(t *testing.T) {
	s := realScene(t, 3, 0, true, &readsAffinity{})
	s.expect(s.requiring(named("n1")), None)
	read := s.requiring(named("n1"))
	read.Labels["app"] = "read"
	s.expect(read, NodeNames)
}

func TestPodsThatNameTheirNodes(t *testing.T) {
	const nodes = 6
	s := realScene(t, nodes, 0, true)
	bound := s.requiring
	for i := range 12 {
		name := fmt.Sprintf("n%d", i%nodes)
		pod := bound(named(name), named("gone"), named(name))
		decision := s.expect(pod, None)
		if got := s.bestNames(decision); !slices.Equal(got, []string{name}) || decision.Feasible != 1 ||
			decision.Evaluated != 1 {
			t.Fatalf("%d of %d nodes fit, the best is %v, want %s", decision.Feasible, decision.Evaluated, got, name)
		}
		s.place(pod, decision)
	}
	if n := s.engine.classes.residents.len(); n != 1 {
		t.Errorf("%d classes were made, want one for all", n)
	}
	for range 2 { // n0 has 4 CPUs
		pod := bound(named("n0"))
		s.place(pod, s.expect(pod, None))
	}
	s.expect(bound(named("n0")), NoFit)
	s.expect(bound(named("gone")), NoFit)
	s.expect(bound(named("n1"), named("n2")), NodeNames)
	ssd := named("n1")
	ssd.MatchExpressions = []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn,
		Values: []string{"ssd"}}}
	s.expect(bound(ssd), NodeNames)
	two := named("n1")
	two.MatchFields[0].Values = []string{"n1", "n2"}
	s.expect(bound(two), NodeNames)
	got := s.expect(bound(named("n1"), corev1.NodeSelectorTerm{MatchExpressions: ssd.MatchExpressions}), None)
	if got.Feasible != 3 {
		t.Errorf("%d nodes fit a pod that wants n1 or an ssd", got.Feasible)
	}
}
