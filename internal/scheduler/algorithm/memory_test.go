// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/workload"
)

// unique returns n strings that no other pod has, of about 50 bytes each.
func unique(pod, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%d-%d-%s", pod, i, strings.Repeat("x", 40)))
	}
	return out
}

// largePods change pods in what users may write any amount of. Each pod is of a class of its own.
var largePods = map[string]func(pod *corev1.Pod, i int){
	"what nothing reads": func(pod *corev1.Pod, i int) {
		notes := strings.Join(unique(i, 2000), "")
		pod.Annotations = map[string]string{"notes": notes}
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(notes)}}
		for _, value := range unique(i, 500) {
			pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: value, Value: value})
			pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, value+value)
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: value, VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{}}})
		}
	},
	"labels": func(pod *corev1.Pod, i int) {
		for _, key := range unique(i, 500) {
			pod.Labels[key] = key
		}
	},
	"node affinity": func(pod *corev1.Pod, i int) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1,
				Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "disk", Operator: corev1.NodeSelectorOpNotIn, Values: unique(i, 500)}}}}}}}
	},
	"many short terms": func(pod *corev1.Pod, _ int) {
		var terms []corev1.PreferredSchedulingTerm
		for range 500 {
			terms = append(terms, corev1.PreferredSchedulingTerm{Weight: 1, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}}}})
		}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	},
	"pod affinity": func(pod *corev1.Pod, i int) {
		var terms []corev1.WeightedPodAffinityTerm
		for _, value := range unique(i, 200) {
			terms = append(terms, corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: zone, Namespaces: namespaces,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}}})
		}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	},
	"spread constraints": func(pod *corev1.Pod, i int) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: zone,
			WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: unique(i, 500)}}}}}
	},
	"tolerations": func(pod *corev1.Pod, i int) {
		for _, key := range unique(i, 500) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key})
		}
	},
	"host ports": func(pod *corev1.Pod, i int) {
		for port := range int32(1000) {
			pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{
				HostPort: 1 + port + int32(1000*i), ContainerPort: 80, Protocol: corev1.ProtocolTCP})
		}
	},
}

// decideLarge makes classes of pods, and returns how many bytes of the heap they take, with the
// bytes that are counted for them.
func decideLarge(t *testing.T, edit func(pod *corev1.Pod, i int), pods, maxBytes int) (taken, counted int) {
	w := newWorld(t, 1, maxBytes)
	for i := range 4 {
		w.cache.AddNode(klog.FromContext(w.ctx), workload.Node(i))
	}
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	profile := w.profile("default-scheduler", func(*schedconfig.KubeSchedulerProfile) {})
	decide := func(i int, edit func(pod *corev1.Pod, i int)) {
		pod := podOf("basic", 0)
		pod.Name, pod.Labels["app"] = fmt.Sprint(i), fmt.Sprint(i)
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(int64(1+i), resource.DecimalSI)}
		edit(pod, i)
		if fast := w.ours.tryFast(w.ctx, profile, schedframework.NewCycleState(), pod); fast.reason != "" {
			t.Fatalf("pod %d takes the scalar path: %s", i, fast.reason)
		}
		if counted := int(testutil.ToFloat64(metrics.FastPathMemory)); maxBytes != 0 && counted > maxBytes {
			t.Fatalf("%d bytes are counted after pod %d, the limit is %d", counted, i, maxBytes)
		}
	}
	plain := func(*corev1.Pod, int) {}
	decide(0, plain)
	before, countedBefore := heap(), int(testutil.ToFloat64(metrics.FastPathMemory))
	for i := range pods {
		decide(1+i, edit)
	}
	decide(0, plain) // so that no memory lent to a decision refers to a large pod
	taken, counted = heap()-before, int(testutil.ToFloat64(metrics.FastPathMemory))-countedBefore
	runtime.KeepAlive(w)
	return taken, counted
}

func heap() int {
	var stats runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// TestClassesKeepLittleOfTheirPods makes classes of pods of 400 KB that nothing reads.
func TestClassesKeepLittleOfTheirPods(t *testing.T) {
	const pods, most = 60, 16 << 10
	taken, counted := decideLarge(t, largePods["what nothing reads"], pods, 0)
	if each := taken / pods; each > most {
		t.Errorf("a class takes %d bytes, want %d at most", each, most)
	}
	if each := counted / pods; each > most {
		t.Errorf("%d bytes are counted for a class, want %d at most", each, most)
	}
}

// TestMemoryOfClassesIsCounted compares the bytes that are counted for classes with those that they
// take, whatever it is that is large in their pods.
func TestMemoryOfClassesIsCounted(t *testing.T) {
	for name, edit := range largePods {
		t.Run(name, func(t *testing.T) {
			const pods = 60
			taken, counted := decideLarge(t, edit, pods, 0)
			t.Logf("for each class, %d bytes are counted, and the heap has %d more", counted/pods, taken/pods)
			if taken > counted*5/4 {
				t.Errorf("for each class, %d bytes are counted, but the heap has %d more", counted/pods, taken/pods)
			}
			if counted > 5*max(taken, 4096*pods) {
				t.Errorf("for each class, %d bytes are counted, although the heap has only %d more", counted/pods,
					taken/pods)
			}
		})
	}
}

// TestLargeClassesAreEvicted makes more classes of large pods than fit.
func TestLargeClassesAreEvicted(t *testing.T) {
	for name, edit := range largePods {
		t.Run(name, func(t *testing.T) {
			const limit = 1 << 20
			if taken, _ := decideLarge(t, edit, 150, limit); taken > 2*limit {
				t.Errorf("the heap has %d bytes more, the limit is %d", taken, limit)
			}
		})
	}
}
