// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// What counts as a change. An update that changes nothing here puts the new object in the old one's
// place without an entry in the change log: whatever was worked out about the node stays right.

// sameNode says whether two objects of a node are the same to every plugin that goes by labels,
// annotations, spec or status, but for what kubelets and controllers report all the time and no
// in-tree plugin reads: conditions (taints stand for them), and the volumes in use and attached
// (attach limits count VolumeAttachments). A plugin that does read those must not have its verdicts
// kept.
func sameNode(a, b *corev1.Node) bool {
	return a == b || a.UID == b.UID &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(a.Annotations, b.Annotations) &&
		sameQuantities(a.Status.Allocatable, b.Status.Allocatable) &&
		sameQuantities(a.Status.Capacity, b.Status.Capacity) &&
		sameImages(a.Status.Images, b.Status.Images) &&
		apiequality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		apiequality.Semantic.DeepEqual(lastingStatus(a), lastingStatus(b))
}

// lastingStatus is what sameNode compares of a status besides what it has compared field by field.
func lastingStatus(node *corev1.Node) corev1.NodeStatus {
	status := node.Status
	status.Allocatable, status.Capacity, status.Images = nil, nil, nil
	status.Conditions, status.VolumesInUse, status.VolumesAttached = nil, nil, nil
	return status
}

func sameImages(a, b []corev1.ContainerImage) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.ContainerImage) bool {
		return x.SizeBytes == y.SizeBytes && slices.Equal(x.Names, y.Names)
	})
}

func sameQuantities(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		if y, ok := b[name]; !ok || x.Cmp(y) != 0 {
			return false
		}
	}
	return true
}

// likeness is how much of what is known of an older object of a pod holds for a newer one.
type likeness uint8

const (
	// unlike: nothing. The pod may as well be another one.
	unlike likeness = iota
	// ofSameClass: all but for labels that are set when a pod is bound, of which its class says
	// nothing.
	ofSameClass
	// same: all. The newer object takes the place of the older without an entry in the change log.
	same
)

// SetByBinding says whether the API server sets a label of pods when it binds them, to that of
// their node (KEP-4742, the admission plugin PodTopologyLabels). A pod that was assumed may differ
// in it once it is confirmed, and keeps its class.
func SetByBinding(label string) bool {
	return label == corev1.LabelTopologyZone || label == corev1.LabelTopologyRegion
}

// likenessOf says how much alike two objects of an assigned pod are to the pods that are to be
// placed, and to the sums of their node, except for the resources: labels, being terminated,
// (anti-)affinity, host ports, claims. Other volumes, the priority and the scheduling group never
// change.
func likenessOf(a, b *corev1.Pod) likeness {
	switch {
	case (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
		!sameAffinity(a.Spec.Affinity, b.Spec.Affinity) ||
		!slices.Equal(schedutil.GetHostPorts(a), schedutil.GetHostPorts(b)) ||
		!sameClaims(a.Spec.Volumes, b.Spec.Volumes) ||
		!sameNodeClaims(a.Status.NodeAllocatableResourceClaimStatuses, b.Status.NodeAllocatableResourceClaimStatuses):
		return unlike
	case maps.Equal(a.Labels, b.Labels):
		return same
	case hasAllButSetByBinding(a.Labels, b.Labels) && hasAllButSetByBinding(b.Labels, a.Labels):
		return ofSameClass
	}
	return unlike
}

// hasAllButSetByBinding says whether all labels of a that binding does not set are in b.
func hasAllButSetByBinding(a, b map[string]string) bool {
	for label, value := range a {
		if other, ok := b[label]; (!ok || other != value) && !SetByBinding(label) {
			return false
		}
	}
	return true
}

// sameAffinity takes nil and empty for different, which only costs an entry, and is several times
// faster for it.
func sameAffinity(a, b *corev1.Affinity) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a, b)
}

func sameNodeClaims(a, b []corev1.NodeAllocatableResourceClaimStatus) bool {
	return len(a) == 0 && len(b) == 0 || apiequality.Semantic.DeepEqual(a, b)
}

// sameClaims compares the claims among the volumes. Other volumes may be missing in one object:
// informers drop some of them when the pod is bound.
func sameClaims(a, b []corev1.Volume) bool {
	for {
		var x, y *corev1.PersistentVolumeClaimVolumeSource
		x, a = nextClaim(a)
		y, b = nextClaim(b)
		if x == nil || y == nil {
			return x == y
		}
		if x.ClaimName != y.ClaimName {
			return false
		}
	}
}

// nextClaim returns the first claim, nil if there is none, and the volumes after it.
func nextClaim(volumes []corev1.Volume) (*corev1.PersistentVolumeClaimVolumeSource, []corev1.Volume) {
	for i := range volumes {
		if claim := volumes[i].PersistentVolumeClaim; claim != nil {
			return claim, volumes[i+1:]
		}
	}
	return nil, nil
}

// sameRequestInputs says whether two objects of a pod are equal in all that the pod's requests are
// worked out from. It only has to be right when it says yes. The inputs are those of PodRequests in
// k8s.io/component-helpers/resource.
func sameRequestInputs(a, b *corev1.Pod) bool {
	return sameContainers(a.Spec.Containers, b.Spec.Containers) &&
		sameContainers(a.Spec.InitContainers, b.Spec.InitContainers) &&
		sameQuantities(a.Spec.Overhead, b.Spec.Overhead) &&
		samePodRequests(a.Spec.Resources, b.Spec.Resources) &&
		samePodRequests(a.Status.Resources, b.Status.Resources) &&
		sameQuantities(a.Status.AllocatedResources, b.Status.AllocatedResources) &&
		resourcehelper.IsPodResizeInfeasible(a) == resourcehelper.IsPodResizeInfeasible(b) &&
		(podRunsAsAsked(a) && podRunsAsAsked(b) || sameStatuses(a.Status.ContainerStatuses, b.Status.ContainerStatuses) &&
			sameStatuses(a.Status.InitContainerStatuses, b.Status.InitContainerStatuses))
}

func podRunsAsAsked(pod *corev1.Pod) bool {
	return runsAsAsked(pod.Spec.Containers, pod.Status.ContainerStatuses) && runsAsAsked(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
}

// runsAsAsked says whether no container is reported to have other resources than its spec asks for,
// in which case the report, which every pod gets when it starts, adds nothing to the spec.
func runsAsAsked(containers []corev1.Container, statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		status := &statuses[i]
		if status.Resources == nil {
			continue
		}
		j := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == status.Name })
		if j < 0 {
			continue // nobody looks at it
		}
		asked := containers[j].Resources.Requests
		if !sameQuantities(status.Resources.Requests, asked) || len(status.AllocatedResources) > 0 && !sameQuantities(status.AllocatedResources, asked) {
			return false
		}
	}
	return true
}

func sameContainers(a, b []corev1.Container) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Name != y.Name || restarts(x) != restarts(y) || !sameQuantities(x.Resources.Requests, y.Resources.Requests) {
			return false
		}
	}
	return true
}

// restarts says whether an init container is a sidecar.
func restarts(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func sameStatuses(a, b []corev1.ContainerStatus) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Name != y.Name || !samePodRequests(x.Resources, y.Resources) || !sameQuantities(x.AllocatedResources, y.AllocatedResources) {
			return false
		}
	}
	return true
}

func samePodRequests(a, b *corev1.ResourceRequirements) bool {
	return a == b || a != nil && b != nil && sameQuantities(a.Requests, b.Requests)
}

// sameResources says whether two pods add the same to the sums of a node.
func sameResources(a, b fwk.PodResource) bool {
	return a.Non0CPU == b.Non0CPU && a.Non0Mem == b.Non0Mem &&
		a.Resource.GetMilliCPU() == b.Resource.GetMilliCPU() &&
		a.Resource.GetMemory() == b.Resource.GetMemory() &&
		a.Resource.GetEphemeralStorage() == b.Resource.GetEphemeralStorage() &&
		maps.Equal(a.Resource.GetScalarResources(), b.Resource.GetScalarResources())
}
