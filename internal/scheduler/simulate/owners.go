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

	"github.com/livesched/livesched/api/v1alpha1"
)

// maxOwners limits the owners that a result names.
const maxOwners = 20

// owner is the owner of pods, as users know it.
type owner struct{ kind, namespace, name string }

// ownerOf returns the controller of a pod, or the Deployment above its ReplicaSet, which the name
// and the label of the ReplicaSet tell.
func ownerOf(pod *corev1.Pod) owner {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return owner{"Pod", pod.Namespace, ""}
	}
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if deployment, ok := strings.CutSuffix(controller.Name, "-"+hash); ok && hash != "" && controller.Kind == "ReplicaSet" {
		return owner{"Deployment", pod.Namespace, deployment}
	}
	return owner{controller.Kind, pod.Namespace, controller.Name}
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
