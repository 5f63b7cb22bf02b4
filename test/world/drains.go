// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// drain drains a node, or ends the maintenance of those that are cordoned.
func (w *World) drain(r *rand.Rand) {
	nodes := sorted(w.cluster.nodes)
	if len(nodes) == 0 {
		return
	}
	if r.IntN(2) == 0 {
		for _, node := range nodes {
			w.cordon(node, false)
		}
		return
	}
	node := one(r, nodes)
	w.log.add("drain node %s", node.Name)
	w.cordon(node, true)
	for _, pod := range w.podsOn(node) {
		w.evict(r, pod)
	}
}

func (w *World) cordon(node *corev1.Node, unschedulable bool) {
	if node.Spec.Unschedulable == unschedulable {
		return
	}
	node = node.DeepCopy()
	node.Spec.Unschedulable = unschedulable
	w.log.add("node %s is unschedulable: %v", node.Name, unschedulable)
	w.must(w.cluster.objects.Update(w.ctx, node))
}

// evict evicts a pod, unless a disruption budget forbids it. The controller of some pods creates
// another one as soon as one ends.
func (w *World) evict(r *rand.Rand, pod *corev1.Pod) {
	known := w.cluster.preemptions.deleted[pod.UID]
	w.cluster.preemptions.deleted[pod.UID] = true
	// A client waits and tries again if the budget is new. The world would stand still meanwhile,
	// and so would the controller of the budget.
	err := w.cluster.kube.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		SubResource("eviction").MaxRetries(0).
		Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}).
		Do(w.ctx).Error()
	if apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) { // or several budgets select it
		w.counts["evictions that a budget forbids"]++
		w.cluster.preemptions.deleted[pod.UID] = known
		return
	}
	w.must(err)
	claims := len(pod.Spec.ResourceClaims) + len(pod.Spec.Volumes)
	if claims > 0 || groupOf(pod) != "" || pod.Spec.SchedulerName == otherScheduler || r.IntN(3) == 0 ||
		!w.accepts(pod.Namespace) {
		return
	}
	w.counts["evicted pods that are replaced"]++
	next := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Labels: pod.Labels,
		Name: fmt.Sprintf("next-%d", w.counts["evicted pods that are replaced"])}, Spec: *pod.Spec.DeepCopy()}
	next.Spec.NodeName = ""
	w.log.add("create pod %s in place of %s", next.Name, pod.Name)
	w.must(w.cluster.objects.Create(w.ctx, next))
}
