// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// addNode adds a node. A node may come again under the name of another one.
func (w *World) addNode(r *rand.Rand) {
	name, zone := fmt.Sprintf("node-%d", r.IntN(10)), fmt.Sprintf("z%d", r.IntN(3))
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(one(r, []string{"2", "4", "8"})),
			corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods:   resource.MustParse("12")}},
	}
	w.moveNode(node, zone)
	if err := w.cluster.objects.Create(w.ctx, node); !apierrors.IsAlreadyExists(err) {
		w.log.add("create node %s", name)
		w.must(err)
	}
}

// moveNode puts a node into a zone. The spread of the pods of Services has an effect only if nodes
// have the zone as a well-known label, too.
func (w *World) moveNode(node *corev1.Node, zone string) {
	node.Labels["zone"] = zone
	if w.plan.Actors["services"] > 0 {
		node.Labels[corev1.LabelTopologyZone] = zone
	}
}

// changeNodes adds or removes a node, or changes its taints or labels.
func (w *World) changeNodes(r *rand.Rand) {
	nodes := sorted(w.cluster.nodes)
	kind := r.IntN(7)
	if len(nodes) < 2 || kind < 2 {
		w.addNode(r)
		return
	}
	node := one(r, nodes).DeepCopy()
	switch kind {
	case 2:
		w.removeNode(node)
		return
	case 3:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
	case 4:
		w.moveNode(node, fmt.Sprintf("z%d", r.IntN(3)))
	case 5:
		flap(node)
	case 6:
		node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(one(r, []string{"1", "2", "4", "8"}))
		w.log.add("change what node %s has", node.Name)
		w.must(w.cluster.objects.Status().Update(w.ctx, node))
		return
	}
	w.log.add("change node %s", node.Name)
	w.must(w.cluster.objects.Update(w.ctx, node))
}

// removeNode deletes a node, and then its pods, as the garbage collector of pods does.
func (w *World) removeNode(node *corev1.Node) {
	w.log.add("delete node %s", node.Name)
	w.must(w.cluster.objects.Delete(w.ctx, node))
	for _, pod := range w.podsOn(node) {
		w.deletePod(pod, client.GracePeriodSeconds(0))
	}
}

// podsOn returns the pods of a node.
func (w *World) podsOn(node *corev1.Node) (pods []*corev1.Pod) {
	for _, pod := range sorted(w.cluster.pods) {
		if pod.Spec.NodeName == node.Name {
			pods = append(pods, pod)
		}
	}
	return pods
}

// flap makes a node ready that was not, or not ready, as far as schedulers see.
func flap(node *corev1.Node) {
	ready := len(node.Spec.Taints)
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints,
		func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
	if len(node.Spec.Taints) == ready {
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
}

// collectOrphan deletes a pod whose node is missing, as the garbage collector of pods does.
func (w *World) collectOrphan(pod *corev1.Pod) {
	if w.nodeOf(pod) == nil {
		w.deletePod(pod, client.GracePeriodSeconds(0))
	}
}

// nodeOf returns the node of a pod, nil if it has none.
func (w *World) nodeOf(pod *corev1.Pod) *corev1.Node {
	return w.cluster.nodes["/registry/minions/"+pod.Spec.NodeName]
}

// nodeChanged sees a change of a node.
func (w *World) nodeChanged(before, after *corev1.Node) {
	if after != nil && (before == nil || before.Labels["zone"] != after.Labels["zone"]) {
		w.cluster.moved[after.Name] = time.Now()
	}
	switch {
	case after == nil:
		w.withdrawDevices(before)
	case before != nil && hasLess(before.Status.Allocatable, after.Status.Allocatable):
		w.cluster.shrunk[after.Name] = time.Now()
	}
}

// hasLess reports whether a node has less of a resource than before.
func hasLess(before, after corev1.ResourceList) bool {
	for name, quantity := range before {
		if now := after[name]; now.Cmp(quantity) < 0 {
			return true
		}
	}
	return false
}
