// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/workload"
)

// repels returns a pod that keeps pods with a label out of its zone, or off its node.
func repels(pod *corev1.Pod, topologyKey, key, value string) *corev1.Pod {
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: topologyKey,
			LabelSelector: metav1.SetAsLabelSelector(map[string]string{key: value})}}}}
	return pod
}

// scalarDecisions returns the number of decisions in which all nodes were asked why a pod fits
// nowhere.
func scalarDecisions() float64 {
	return testutil.ToFloat64(metrics.Decisions.WithLabelValues(metrics.PathScalar, string(fastpath.NoFit)))
}

// TestTheReasonOnANominatedNodeFollowsOtherNodes changes a node in the zone of one to which a pod
// is nominated.
func TestTheReasonOnANominatedNodeFollowsOtherNodes(t *testing.T) {
	w := newAlike(t, 6)
	pod := repels(w.another(podOf("basic", 0)), corev1.LabelTopologyZone, "app", "x")
	pod.Labels["app"] = "mine"
	// The first three nodes are in different zones, as are the others.
	foes := make([]*corev1.Pod, workload.Zones)
	for i := range foes {
		foes[i] = w.another(podOf("basic", i))
		foes[i].Labels["app"] = "x"
		foes[i].Spec.NodeName = workload.NodeName(workload.Zones + i)
		w.must(w.cache.AddPod(klog.FromContext(w.ctx), foes[i]))
	}
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{w.another(podOf("basic", 9))}
	expect := func(want string) {
		t.Helper()
		if got := w.refused(pod).err.Error(); got != "0/6 nodes are available: "+want {
			t.Errorf("the pod is told %q, want %q", got, want)
		}
	}
	expect("6 node(s) didn't match pod anti-affinity rules.")
	before := scalarDecisions()
	expect("6 node(s) didn't match pod anti-affinity rules.")
	w.must(w.cache.RemovePod(klog.FromContext(w.ctx), foes[0]))
	guard := repels(w.another(podOf("basic", 0)), corev1.LabelTopologyZone, "app", "mine")
	w.place(guard, workload.NodeName(workload.Zones), cache.Class{})
	expect("2 node(s) didn't satisfy existing pods anti-affinity rules, 4 node(s) didn't match pod anti-affinity " +
		"rules.")
	if n := scalarDecisions() - before; n != 0 {
		t.Errorf("all nodes were asked %v times", n)
	}
}

// TestANominatedPodThatFitsNowhereDoesNotCountItself has a pod that is nominated to a full node,
// and others of its class.
func TestANominatedPodThatFitsNowhereDoesNotCountItself(t *testing.T) {
	w := newAlike(t, 1)
	w.place(w.another(podOf("basic", 0)), workload.NodeName(0), cache.Class{})
	// Two of these pods have no room in the memory of the node; one has none in its CPU.
	like := w.another(podOf("basic", 0))
	requests, room := like.Spec.Containers[0].Resources.Requests, workload.Node(0).Status.Allocatable
	requests[corev1.ResourceCPU] = room[corev1.ResourceCPU]
	memory := room[corev1.ResourceMemory]
	memory.Set(memory.Value() * 2 / 3)
	requests[corev1.ResourceMemory] = memory
	itself := w.another(like)
	w.handle.nominated[workload.NodeName(0)] = []*corev1.Pod{itself}
	const alone, beside = "1 Insufficient cpu.", "1 Insufficient cpu, 1 Insufficient memory."
	expect := func(pod *corev1.Pod, want string) {
		t.Helper()
		w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
		_, err := w.ours.Decide(w.ctx, w.profile, schedframework.NewCycleState(), pod)
		if err == nil || err.Error() != "0/1 nodes are available: "+want {
			t.Errorf("pod %s: %v, want %q", pod.Name, err, want)
		}
	}
	expect(w.another(like), beside)
	before := scalarDecisions()
	expect(w.another(like), beside)
	expect(itself, alone)
	expect(w.another(like), beside)
	if n := scalarDecisions() - before; n != 0 {
		t.Errorf("all nodes were asked %v times", n)
	}
}
