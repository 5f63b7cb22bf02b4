// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// otherScheduler is the name of a scheduler that is not livesched.
const otherScheduler = "another"

// bindForeign lets somebody else bind a pod: another scheduler a pod of its own, or a user a pod
// that livesched is to schedule.
func (w *World) bindForeign(r *rand.Rand) {
	pod := &corev1.Pod{}
	if pending := w.simplePending(); len(pending) > 0 && r.IntN(2) == 0 {
		pod = one(r, pending)
	} else {
		w.counts["foreign pods"]++
		pod = w.newPod(r)
		pod.Name = fmt.Sprintf("foreign-%d", w.counts["foreign pods"])
		pod.Spec = corev1.PodSpec{SchedulerName: otherScheduler, Containers: pod.Spec.Containers,
			Priority: pod.Spec.Priority}
		pod.Spec.Containers[0].Ports = nil
		withoutDevices(pod)
		w.must(w.cluster.objects.Create(w.ctx, pod))
	}
	for _, node := range sorted(w.cluster.nodes) {
		if r.IntN(2) > 0 || !w.hasRoom(node, pod) {
			continue
		}
		w.log.add("somebody else binds pod %s to %s", pod.Name, node.Name)
		w.cluster.foreign[pod.UID] = true
		w.must(w.cluster.kube.CoreV1().Pods(pod.Namespace).Bind(w.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node.Name}}, metav1.CreateOptions{}))
		return
	}
}

// simplePending returns the pods without a node that need only resources, and are in no group.
func (w *World) simplePending() (pods []*corev1.Pod) {
	for _, pod := range sorted(w.cluster.pods) {
		spec := &pod.Spec
		if spec.NodeName == "" && groupOf(pod) == "" && !usesDevices(pod) && len(spec.Volumes) == 0 &&
			len(spec.Containers[0].Ports) == 0 && !isGated(pod) && pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// requestsOn returns what the pods of a node request.
func (w *World) requestsOn(node *corev1.Node) corev1.ResourceList {
	total := corev1.ResourceList{corev1.ResourcePods: resource.Quantity{}}
	for _, pod := range w.cluster.pods {
		if pod.Spec.NodeName == node.Name && !podutil.IsPodTerminal(pod) {
			addRequests(total, pod)
		}
	}
	return total
}

// addRequests adds what a pod requests.
func addRequests(total corev1.ResourceList, pod *corev1.Pod) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
	requests[corev1.ResourcePods] = resource.MustParse("1")
	for name, quantity := range requests {
		sum := total[name]
		sum.Add(quantity)
		total[name] = sum
	}
}

// hasRoom reports whether a node has what a pod requests.
func (w *World) hasRoom(node *corev1.Node, pod *corev1.Pod) bool {
	total := w.requestsOn(node)
	addRequests(total, pod)
	for name, sum := range total {
		if free := node.Status.Allocatable[name]; !slices.Contains(deviceResources, name) && sum.Cmp(free) > 0 {
			return false
		}
	}
	return true
}

// autoscale adds a node if a pod fits on none, or else removes one without pods.
func (w *World) autoscale(r *rand.Rand) {
	for _, pod := range sorted(w.cluster.pods) {
		if pod.Spec.NodeName == "" && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		}) {
			w.addNode(r)
			return
		}
	}
	for _, node := range sorted(w.cluster.nodes) {
		if len(w.cluster.nodes) > 2 && len(w.podsOn(node)) == 0 {
			w.removeNode(node)
			return
		}
	}
}
