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
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// maxOwners limits the owners that a result names.
const maxOwners = 20

// owner is the owner of pods, as users know it.
type owner struct{ kind, namespace, name string }

// ownerOf returns the owner of a pod with a controller: this, or the Deployment above its
// ReplicaSet, which the name and the label of the ReplicaSet tell.
func ownerOf(pod *corev1.Pod, controller *metav1.OwnerReference) owner {
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if deployment, ok := strings.CutSuffix(controller.Name, "-"+hash); ok && hash != "" &&
		controller.Kind == "ReplicaSet" {
		return owner{"Deployment", pod.Namespace, deployment}
	}
	return owner{controller.Kind, pod.Namespace, controller.Name}
}

// controller is what the pods of a controller have in common.
type controller struct {
	owner owner
	// stays means that a pod belongs to its node: no other node can take it.
	stays bool
	// pods are the numbers of pods by zone: see census.
	pods []int
}

// controllers finds the controllers of pods. It makes one for each UID, because a cluster has many
// pods for each.
type controllers struct {
	byUID map[types.UID]*controller
	// alone is for pods without a controller, by namespace, and static for static pods.
	alone  map[string]*controller
	static *controller
}

func newControllers() *controllers {
	return &controllers{byUID: map[types.UID]*controller{}, alone: map[string]*controller{},
		static: &controller{stays: true}}
}

// of returns the controller of a pod. A pod without one has an owner without a name.
func (c *controllers) of(pod *corev1.Pod) *controller {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return c.get(pod, ref)
	}
	if podfields.StaysWithNode(pod) {
		return c.static
	}
	known := c.alone[pod.Namespace]
	if known == nil {
		known = &controller{owner: owner{"Pod", pod.Namespace, ""}}
		c.alone[pod.Namespace] = known
	}
	return known
}

func (c *controllers) get(pod *corev1.Pod, ref *metav1.OwnerReference) *controller {
	uid := ref.UID
	if uid == "" { // not from an API server
		uid = types.UID(pod.Namespace + "/" + ref.Kind + "/" + ref.Name)
	}
	known := c.byUID[uid]
	if known == nil {
		known = &controller{owner: ownerOf(pod, ref), stays: podfields.StaysWithNode(pod)}
		c.byUID[uid] = known
	}
	return known
}

// owners returns the owners with the most pods.
func owners(counts map[owner]int) []v1alpha1.OwnerPods {
	var out []v1alpha1.OwnerPods
	for o, pods := range counts {
		out = append(out, v1alpha1.OwnerPods{Kind: o.kind, Namespace: o.namespace, Name: o.name, Pods: int32(pods)})
	}
	slices.SortFunc(out, func(a, b v1alpha1.OwnerPods) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Kind, b.Kind))
	})
	return out[:min(len(out), maxOwners)]
}
