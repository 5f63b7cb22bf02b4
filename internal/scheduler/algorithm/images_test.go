// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/test/workload"
)

// evaluations returns how often plugins of a profile have been called about a node, by extension
// point and plugin.
func evaluations(w *world, profile string) map[string]int {
	w.t.Helper()
	calls := map[string]int{}
	for point, plugins := range map[string][]string{
		schedmetrics.Filter: {names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity},
		schedmetrics.Score:  {names.ImageLocality, names.TaintToleration, names.NodeAffinity},
	} {
		for _, plugin := range plugins {
			n, err := testutil.GetCounterMetricValue(
				schedmetrics.PluginEvaluationTotal.WithLabelValues(plugin, point, profile))
			w.must(err)
			calls[point+" of "+plugin] = int(n)
		}
	}
	return calls
}

// TestImagesThatComeCostFewNodes counts what a decision does after a node pulls or removes the
// image, and after a node is added, for pods whose image a third of the nodes have.
func TestImagesThatComeCostFewNodes(t *testing.T) {
	const most = 100
	image := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Containers[0].Image = workload.PulledImage
		return pod
	}
	for _, kind := range []string{"plain", "beside a taint", "spread"} {
		for _, nodes := range []int{400, 2000} {
			t.Run(fmt.Sprintf("%s/%d", kind, nodes), func(t *testing.T) {
				w := newWorld(t, 1, 0)
				place := w.decider(nodes)
				logger := klog.FromContext(w.ctx)
				list := make([]*corev1.Node, nodes)
				change := func(i int, edit func(*corev1.Node)) {
					changed := list[i].DeepCopy()
					edit(changed)
					w.cache.UpdateNode(logger, list[i], changed)
					list[i] = changed
				}
				for i := range list {
					list[i] = workload.Node(i)
				}
				pod := func(i int) *corev1.Pod { return image(podOf("basic", i)) }
				switch kind {
				case "beside a taint": // then nodes differ in normalized scores
					change(7, func(n *corev1.Node) {
						n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
					})
				case "spread":
					pod = func(i int) *corev1.Pod { return image(podOf("spread", i*workload.DefaultSeries)) }
				}
				const warm, rounds = 10, 60
				for i := range warm {
					place(pod(i))
				}
				for i := warm; i < warm+rounds; i++ {
					switch i % 3 {
					case 0: // pulled by nodes without it
						change(3+i*9%nodes/9*9, workload.Pull)
					case 1:
						change(i*9%nodes/9*9, func(n *corev1.Node) { n.Status.Images = nil })
					case 2:
						list = append(list, workload.Node(len(list)))
						w.cache.AddNode(logger, list[len(list)-1])
					}
					before := evaluations(w, "default-scheduler")
					examined := place(pod(i))
					if examined > most {
						t.Fatalf("decision %d examined %d nodes, want %d at most", i, examined, most)
					}
					for name, n := range evaluations(w, "default-scheduler") {
						if n -= before[name]; n > 2 || name == "Score of ImageLocality" && n > 0 {
							t.Fatalf("decision %d: %d calls for %s", i, n, name)
						}
					}
				}
			})
		}
	}
}

// TestANewClassWithAnImageTakesNoPass has pods that differ in their requests: the first decision
// about a class looks up the best nodes, with the image or without.
func TestANewClassWithAnImageTakesNoPass(t *testing.T) {
	w := newWorld(t, 1, 0)
	place := w.decider(400)
	for i := range 20 {
		pod := podOf("pulled", i)
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(200+i)<<20,
			resource.BinarySI)
		if examined := place(pod); examined > 1 {
			t.Fatalf("the decision about pod %d examined %d nodes", i, examined)
		}
	}
}

// TestPodsOfBuildsAreOfOneClass has pods whose images differ in the tag: few nodes have each. Once
// enough nodes have one, it makes a difference.
func TestPodsOfBuildsAreOfOneClass(t *testing.T) {
	a := newAlike(t, 100)
	build := func(i int) *corev1.Pod {
		pod := podOf("basic", i)
		pod.Spec.Containers[0].Image = fmt.Sprintf("registry.example/build:%d", i)
		return pod
	}
	class := a.classOf(a.profile, build(0))
	pull := func(node, i int) {
		a.change(node, func(n *corev1.Node) {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
				Names: []string{build(i).Spec.Containers[0].Image}, SizeBytes: 800 << 20})
		})
	}
	for i := range 20 {
		if got := a.classOf(a.profile, build(i)); got != class {
			t.Fatalf("the pod of build %d is of class %d, the first of %d", i, got, class)
		}
		a.agree(build(i))
		pull(i, i)
		a.agree(build(i))
	}
	if got := a.classOf(a.profile, build(3)); got != class {
		t.Errorf("the pod of a build on one node is of class %d, want %d", got, class)
	}
	for node := range 30 {
		pull(20+node, 3)
		a.agree(build(3))
		a.agree(build(4))
	}
	if got := a.classOf(a.profile, build(3)); got == class {
		t.Error("the pod of a build on many nodes is of the class of the others")
	}
	if got := a.classOf(a.profile, build(4)); got != class {
		t.Errorf("the pod of another build is of class %d, want %d", got, class)
	}
	for node := range 30 {
		a.change(20+node, func(n *corev1.Node) { n.Status.Images = nil })
	}
	a.agree(build(3))
	if got := a.classOf(a.profile, build(3)); got != class {
		t.Errorf("the pod of a build that nodes have removed is of class %d, want %d", got, class)
	}
}
