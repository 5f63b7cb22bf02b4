// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gate is a scheduling gate that some pods are created with.
const gate = "example.com/gate"

// update changes a pod or a node in a way that the API server allows.
func (w *World) update(r *rand.Rand) {
	if r.IntN(3) == 0 {
		w.updateNode(r)
		return
	}
	pods := slices.DeleteFunc(sorted(w.cluster.pods),
		func(pod *corev1.Pod) bool { return groupOf(pod) != "" || pod.DeletionTimestamp != nil })
	if len(pods) == 0 {
		return
	}
	if gated := slices.IndexFunc(pods, isGated); gated >= 0 && r.IntN(2) == 0 {
		w.openGate(pods[gated].DeepCopy())
		return
	}
	pod := one(r, pods).DeepCopy()
	switch {
	case r.IntN(2) == 0:
		w.resize(r, pod)
		return
	case pod.Spec.NodeName == "" && r.IntN(2) == 0:
		addToleration(r, pod)
	default:
		pod.Labels["app"] = one(r, []string{"a", "b", "c"})
	}
	w.log.add("update pod %s: labels %v, tolerations %v", pod.Name, pod.Labels, pod.Spec.Tolerations)
	w.must(w.cluster.objects.Update(w.ctx, pod))
}

// updateNode changes a taint, a label, or an extended resource of a node.
func (w *World) updateNode(r *rand.Rand) {
	nodes := sorted(w.cluster.nodes)
	if len(nodes) == 0 {
		return
	}
	node := one(r, nodes).DeepCopy()
	switch r.IntN(3) {
	case 0:
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints,
			func(taint corev1.Taint) bool { return taint.Key == dedicatedTaint })
		if r.IntN(3) > 0 {
			effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}
			node.Spec.Taints = append(node.Spec.Taints,
				corev1.Taint{Key: dedicatedTaint, Value: one(r, []string{"a", "b"}), Effect: one(r, effects)})
		}
	case 1:
		delete(node.Labels, diskLabel)
		if disk := one(r, []string{"", "ssd", "hdd"}); disk != "" {
			node.Labels[diskLabel] = disk
		}
	default:
		node.Status.Allocatable[gpu] = resource.MustParse(one(r, []string{"0", "2", "4"}))
		w.log.add("node %s has %v GPUs", node.Name, node.Status.Allocatable[gpu])
		w.must(w.cluster.objects.Status().Update(w.ctx, node))
		return
	}
	w.log.add("update node %s: labels %v, taints %v", node.Name, node.Labels, node.Spec.Taints)
	w.must(w.cluster.objects.Update(w.ctx, node))
}

func isGated(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 }

func (w *World) openGate(pod *corev1.Pod) {
	w.log.add("pod %s is gated no longer", pod.Name)
	pod.Spec.SchedulingGates = nil
	w.must(w.cluster.objects.Update(w.ctx, pod))
}

// resize changes what a pod requests.
func (w *World) resize(r *rand.Rand, pod *corev1.Pod) {
	if pod.Spec.Resources != nil { // its containers must not request more
		return
	}
	cpu := one(r, []string{"100m", "500m", "1", "3"})
	w.log.add("resize pod %s to %s", pod.Name, cpu)
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	w.must(w.cluster.objects.SubResource("resize").Update(w.ctx, pod))
}

// podResized sees a change of what a pod requests. Its kubelet gives it that, if it has a node.
func (w *World) podResized(before, after *corev1.Pod) {
	requests := after.Spec.Containers[0].Resources.Requests
	if before.UID != after.UID || requests.Cpu().Equal(*before.Spec.Containers[0].Resources.Requests.Cpu()) {
		return
	}
	w.cluster.resized[after.UID] = time.Now()
	if after.Spec.NodeName != "" {
		w.cluster.filled[after.Spec.NodeName] = time.Now()
		w.after(w.kubeletDelay(), func() { w.resizeContainer(after) })
	}
}

// resizeContainer reports what the container of a pod has, as its kubelet does.
func (w *World) resizeContainer(pod *corev1.Pod) {
	requests := pod.Spec.Containers[0].Resources.Requests
	status := []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, AllocatedResources: requests,
		Resources: &corev1.ResourceRequirements{Requests: requests}}}
	w.patchStatus(pod, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"containerStatuses":%s}}`, pod.UID, asJSON(status))))
}
