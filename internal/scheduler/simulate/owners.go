// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

// maxOwners limits the owners that a result names.
const maxOwners = 20

// owner is the owner of pods, as users know it.
type owner struct{ kind, namespace, name string }

// ownerOf returns the owner of a pod with a controller: this, or the Deployment above its
// ReplicaSet, which the name and the label of the ReplicaSet tell.
func ownerOf(pod *corev1.Pod, controller *metav1.OwnerReference) owner {
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if deployment, ok := strings.CutSuffix(controller.Name, "-"+hash); ok && hash != "" && controller.Kind == "ReplicaSet" {
		return owner{"Deployment", pod.Namespace, deployment}
	}
	return owner{controller.Kind, pod.Namespace, controller.Name}
}

// controllers has what the pods of a controller have in common, by its UID. It is found once for
// each, because a simulation visits all pods of the cluster several times.
type controllers map[types.UID]*controller

// controller is the controller of pods.
type controller struct {
	owner owner
	// stays means that a pod belongs to its node: no other node can take it.
	stays bool
	// pods are the numbers of pods by zone, while these are counted.
	pods []int
}

// of returns the controller of a pod. A pod without one has an owner without a name.
func (c controllers) of(pod *corev1.Pod) *controller {
	for i := range pod.OwnerReferences {
		if ref := &pod.OwnerReferences[i]; ref.Controller != nil && *ref.Controller {
			return c.get(pod, ref)
		}
	}
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return &controller{owner: owner{"Pod", pod.Namespace, ""}, stays: static}
}

func (c controllers) get(pod *corev1.Pod, ref *metav1.OwnerReference) *controller {
	uid := ref.UID
	if uid == "" { // not from an API server
		uid = types.UID(pod.Namespace + "/" + ref.Kind + "/" + ref.Name)
	}
	known := c[uid]
	if known == nil {
		known = &controller{owner: ownerOf(pod, ref), stays: ref.Kind == "DaemonSet" || ref.Kind == "Node"}
		c[uid] = known
	}
	return known
}

// count counts a pod in the zone with a number.
func (of *controller) count(zone int) {
	for len(of.pods) <= zone {
		of.pods = append(of.pods, 0)
	}
	of.pods[zone]++
}

// maxSkew returns the largest difference between two of the zones, for the owners that count. Zones
// without pods of an owner count. Pods without a controller have no reason to be spread.
func (c controllers) maxSkew(zones int, counted map[owner]bool) (skew int32) {
	if zones < 2 {
		return 0
	}
	all := map[owner][]int{}
	for _, of := range c {
		if !counted[of.owner] {
			continue
		}
		pods := all[of.owner]
		if pods == nil {
			pods = make([]int, zones)
			all[of.owner] = pods
		}
		for zone, n := range of.pods {
			pods[zone] += n
		}
	}
	for _, pods := range all {
		skew = max(skew, int32(slices.Max(pods)-slices.Min(pods)))
	}
	return skew
}

// owners returns the owners with the most pods.
func owners(counts map[owner]int) []v1alpha1.OwnerPods {
	var out []v1alpha1.OwnerPods
	for o, pods := range counts {
		out = append(out, v1alpha1.OwnerPods{Kind: o.kind, Namespace: o.namespace, Name: o.name, Pods: int32(pods)})
	}
	slices.SortFunc(out, func(a, b v1alpha1.OwnerPods) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return out[:min(len(out), maxOwners)]
}
