// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/mapkey"
)

// hintWorld makes random pods and events of few values, so that many pods are alike in what a
// plugin reads.
type hintWorld struct {
	*rand.Rand
	pods int
}

func oneOf[T any](w *hintWorld, values ...T) T { return values[w.IntN(len(values))] }

func (w *hintWorld) labels() map[string]string {
	labels := map[string]string{"app": oneOf(w, "a", "b")}
	if w.IntN(2) == 0 {
		labels["rev"] = oneOf(w, "1", "2")
	}
	return labels
}

func (w *hintWorld) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{oneOf(w, "app", "rev"): oneOf(w, "a", "b", "1")}}
}

func (w *hintWorld) affinityTerms() []corev1.PodAffinityTerm {
	terms := make([]corev1.PodAffinityTerm, oneOf(w, 0, 0, 0, 1, 1, 2))
	for i := range terms {
		terms[i] = corev1.PodAffinityTerm{TopologyKey: oneOf(w, "zone", "rack"), LabelSelector: w.selector(),
			Namespaces: oneOf(w, nil, []string{"one"})}
	}
	return terms
}

func (w *hintWorld) requests() corev1.ResourceList {
	list := corev1.ResourceList{}
	if w.IntN(3) != 0 {
		list[corev1.ResourceCPU] = resource.MustParse(oneOf(w, "0", "1", "3"))
	}
	if w.IntN(3) == 0 {
		list["example.com/gpu"] = resource.MustParse("1")
	}
	return list
}

// pod returns a pod that no other pod equals: its name, UID, annotations, images, limits and the
// like differ.
func (w *hintWorld) pod() *corev1.Pod {
	w.pods++
	unique := fmt.Sprint("pod-", w.pods)
	container := func() corev1.Container {
		c := corev1.Container{Name: unique, Image: unique, Resources: corev1.ResourceRequirements{
			Requests: w.requests(),
			Limits:   corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(w.pods), resource.DecimalSI)},
		}}
		if w.IntN(2) == 0 {
			c.Ports = []corev1.ContainerPort{{Name: unique, ContainerPort: 8080, HostPort: oneOf(w, int32(80), 81),
				Protocol: corev1.ProtocolTCP}}
		}
		return c
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: unique, Namespace: oneOf(w, "one", "two"), UID: types.UID(unique), Labels: w.labels(),
			Annotations: map[string]string{"unique": unique},
		},
		Spec: corev1.PodSpec{
			Containers:   []corev1.Container{container()},
			NodeSelector: oneOf(w, nil, map[string]string{"zone": "a"}),
			Affinity: &corev1.Affinity{
				PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: w.affinityTerms()},
				PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: w.affinityTerms()},
			},
		},
	}
	if w.IntN(3) == 0 {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "rack", Operator: oneOf(w, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist)},
				}}},
			}}
	}
	if w.IntN(3) == 0 {
		pod.Spec.InitContainers = []corev1.Container{container()}
		pod.Spec.InitContainers[0].RestartPolicy = oneOf(w, nil, ptr.To(corev1.ContainerRestartPolicyAlways))
	}
	if w.IntN(3) == 0 {
		pod.Spec.Overhead = w.requests()
	}
	if w.IntN(3) == 0 {
		pod.Spec.Tolerations = []corev1.Toleration{{
			Key: oneOf(w, "busy", corev1.TaintNodeUnschedulable), Operator: corev1.TolerationOpExists,
			TolerationSeconds: ptr.To(int64(w.pods)),
		}}
	}
	if w.IntN(2) == 0 {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: oneOf(w, "zone", "rack"), WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:  w.selector(),
			MatchLabelKeys: oneOf(w, nil, []string{"rev"}),
		}}
	}
	return pod
}

func (w *hintWorld) node() *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{Unschedulable: w.IntN(3) == 0},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:  resource.MustParse(oneOf(w, "2", "4", "8")),
			corev1.ResourcePods: resource.MustParse(oneOf(w, "1", "10")),
			"example.com/gpu":   resource.MustParse(oneOf(w, "0", "2")),
		}},
	}
	for _, key := range []string{"zone", "rack"} {
		if w.IntN(3) != 0 {
			node.Labels[key] = oneOf(w, "a", "b")
		}
	}
	if w.IntN(3) == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: oneOf(w, "busy", corev1.TaintNodeUnschedulable),
			Effect: corev1.TaintEffectNoSchedule}}
	}
	return node
}

func (w *hintWorld) boundPod() *corev1.Pod {
	pod := w.pod()
	pod.Spec.NodeName = "node"
	return pod
}

func (w *hintWorld) deviceClass() *resourcev1.DeviceClass {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
	class.Spec.ExtendedResourceName = oneOf(w, nil, ptr.To("example.com/gpu"), ptr.To("example.com/fpga"))
	return class
}

// change returns a random event that the queue may receive, with its objects.
func (w *hintWorld) change() (change fwk.ClusterEvent, oldObj, newObj any) {
	switch w.IntN(8) {
	case 0:
		return event(fwk.Node, fwk.Add), nil, w.node()
	case 1:
		return event(fwk.Node, fwk.UpdateNodeAllocatable|fwk.UpdateNodeLabel|fwk.UpdateNodeTaint), w.node(), w.node()
	case 2:
		return event(fwk.Node, fwk.Delete), w.node(), nil
	case 3:
		return schedframework.EventAssignedPodAdd, nil, w.boundPod()
	case 4:
		return schedframework.EventAssignedPodDelete, w.boundPod(), nil
	case 5:
		return event(fwk.DeviceClass, fwk.Add), nil, w.deviceClass()
	case 6:
		return event(fwk.DeviceClass, fwk.Update), w.deviceClass(), w.deviceClass()
	}
	old := w.boundPod()
	changed := w.boundPod()
	changed.Namespace, changed.Name, changed.UID = old.Namespace, old.Name, old.UID
	return event(fwk.AssignedPod, fwk.UpdatePodLabel|fwk.UpdatePodScaleDown), old, changed
}

func TestHintsReturnTheSameForPodsWithEqualKeys(t *testing.T) {
	const seed, rounds, podsPerRound = 20261122, 300, 60
	e := newTestEnv(t, nil)
	settings := e.build(t, object("mine")).Queue
	w := &hintWorld{Rand: rand.New(rand.NewPCG(seed, 0))}
	shared, queued, called := map[string]int{}, map[string]int{}, map[string]bool{}
	for round := range rounds {
		pods := make([]*corev1.Pod, podsPerRound)
		for i := range pods {
			pods[i] = w.pod()
		}
		change, oldObj, newObj := w.change()
		for registered, hints := range settings.Hints {
			if !schedframework.MatchClusterEvents(registered, change) {
				continue
			}
			for _, hint := range hints {
				key, known := settings.HintKeys[hint.Plugin]
				if !known || hint.Fn == nil || key.Differs != nil && key.Differs(oldObj, newObj) {
					continue
				}
				called[hint.Plugin+" "+string(registered.Resource)] = true
				answers := map[string]fwk.QueueingHint{}
				for _, pod := range pods {
					var kw mapkey.Writer
					if !key.Write(&kw, pod) {
						t.Fatalf("%s has no key for %s", hint.Plugin, pod.Name)
					}
					answer, err := hint.Fn(logr.Discard(), pod, oldObj, newObj)
					must(t, err)
					if answer == fwk.Queue {
						queued[hint.Plugin]++
					}
					k := string(kw.Bytes())
					earlier, has := answers[k]
					if has {
						shared[hint.Plugin]++
					}
					if has && earlier != answer {
						t.Fatalf("round %d, seed %d: the hint of %s for %s returns %v for pod %s, and %v for another "+
							"pod with its key",
							round, seed, hint.Plugin, change.Label(), answer, pod.Name, earlier)
					}
					answers[k] = answer
				}
			}
		}
	}
	for plugin, key := range settings.HintKeys {
		if plugin != "SchedulingGates" && plugin != "DefaultPreemption" &&
			(key.Write == nil || shared[plugin] < 100 || queued[plugin] < 100) {
			t.Errorf("%s: %d pods shared a key, %d were to be queued", plugin, shared[plugin], queued[plugin])
		}
	}
	for registered, hints := range settings.Hints {
		for _, hint := range hints {
			_, known := settings.HintKeys[hint.Plugin]
			// Updates of waiting pods are looked up for each by itself.
			if known && hint.Fn != nil && registered.Resource != fwk.TargetPod &&
				!called[hint.Plugin+" "+string(registered.Resource)] {
				t.Errorf("no hint of %s for %s was called: add such events to the test", hint.Plugin,
					registered.Label())
			}
		}
	}
	if len(settings.HintKeys) < 8 {
		t.Errorf("there are keys of %d plugins only", len(settings.HintKeys))
	}
}

// TestOneAntiAffinityTermOfSeveralWakesAPod changes a pod that one of two terms selects: each
// term by itself keeps pods apart (kubernetes/kubernetes#139161).
func TestOneAntiAffinityTermOfSeveralWakesAPod(t *testing.T) {
	e := newTestEnv(t, nil)
	hints := e.build(t, object("mine")).Queue.Hints
	apart := func(labels ...string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "apart", Namespace: "ns", UID: "apart"}}
		anti := &corev1.PodAntiAffinity{}
		for _, label := range labels {
			anti.RequiredDuringSchedulingIgnoredDuringExecution = append(
				anti.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{TopologyKey: "zone",
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}})
		}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: anti}
		return pod
	}
	bound := func(pod *corev1.Pod, labels ...string) *corev1.Pod {
		pod.Name, pod.UID, pod.Spec.NodeName, pod.Labels = "bound", "bound", "node", map[string]string{}
		for _, label := range labels {
			pod.Labels[label] = "yes"
		}
		return pod
	}
	waiting := apart("a", "b")
	waiting.Labels = map[string]string{"c": "yes"}
	for name, test := range map[string]struct {
		change  fwk.ClusterEvent
		old     *corev1.Pod
		changed any
		want    fwk.QueueingHint
	}{
		"a pod that one term selects is deleted": {schedframework.EventAssignedPodDelete, bound(apart(), "a"), nil,
			fwk.Queue},
		"a pod that no term selects is deleted": {schedframework.EventAssignedPodDelete, bound(apart(), "d"), nil,
			fwk.QueueSkip},
		"a pod is deleted, one of whose terms selects the waiting pod": {schedframework.EventAssignedPodDelete,
			bound(apart("c", "d")), nil, fwk.Queue},
		"a pod loses the label that one term selects": {event(fwk.AssignedPod, fwk.UpdatePodLabel), bound(apart(), "b"),
			bound(apart()), fwk.Queue},
	} {
		got := fwk.QueueSkip
		for registered, of := range hints {
			for _, hint := range of {
				if hint.Plugin != "InterPodAffinity" || !schedframework.MatchClusterEvents(registered, test.change) {
					continue
				}
				answer, err := hint.Fn(logr.Discard(), waiting, test.old, test.changed)
				must(t, err)
				got = max(got, answer)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestPodsWhoseStatusReportsResourcesHaveNoKey(t *testing.T) {
	w := &hintWorld{Rand: rand.New(rand.NewPCG(1, 0))}
	pod := w.pod()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{AllocatedResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}
	if writeRequests(&mapkey.Writer{}, pod) {
		t.Error("the pod has a key")
	}
}

func BenchmarkHintKeys(b *testing.B) {
	w := &hintWorld{Rand: rand.New(rand.NewPCG(1, 0))}
	pods := make([]*corev1.Pod, 64)
	for i := range pods {
		pods[i] = w.pod()
	}
	for name, pl := range map[string]fwk.Plugin{
		"requests": &noderesources.Fit{}, "node affinity": &nodeaffinity.NodeAffinity{},
		"tolerations": &tainttoleration.TaintToleration{},
		"ports":       &nodeports.NodePorts{}, "spread": &podtopologyspread.PodTopologySpread{},
		"pod affinity": &interpodaffinity.InterPodAffinity{},
	} {
		write := hintKey(pl).Write
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var kw mapkey.Writer
			for i := 0; b.Loop(); i++ {
				kw.Reset()
				write(&kw, pods[i%len(pods)])
			}
		})
	}
}
