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

// This file decides what counts as a change. An update without a change replaces the old object
// without an entry in the change log: everything computed from the node stays valid.

// sameNode reports whether two objects of a node are equal in labels, annotations, spec and status,
// except for the parts of the status that kubelets and controllers update all the time and no
// in-tree plugin reads: conditions (plugins read the taints that they cause), and the volumes in
// use and attached (attach limits count VolumeAttachments). The results of a plugin that reads
// these must not be cached.
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

// lastingStatus returns the part of a status that sameNode does not compare field by field.
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

// likeness describes which results computed from an older object of a pod are valid for a newer
// one.
type likeness uint8

const (
	// unlike: nothing, as for another pod.
	unlike likeness = iota
	// ofSameClass: everything, except what depends on labels that are set when a pod is bound.
	// Classes do not depend on them.
	ofSameClass
	// same: everything. The newer object replaces the older without an entry in the change log.
	same
)

// SetByBinding reports whether the API server copies a label from the node to a pod when it binds
// the pod (KEP-4742, the admission plugin PodTopologyLabels). An assumed pod may get another value
// of the label when it is confirmed, and keeps its class.
func SetByBinding(label string) bool {
	return label == corev1.LabelTopologyZone || label == corev1.LabelTopologyRegion
}

// likenessOf compares two objects of an assigned pod in everything that matters to pending pods and
// to the sums of its node, except for the resources: labels, termination, (anti-)affinity, host
// ports, claims. Other volumes, the priority and the scheduling group never change.
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

// hasAllButSetByBinding reports whether b has all labels of a, except those that binding sets.
func hasAllButSetByBinding(a, b map[string]string) bool {
	for label, value := range a {
		if other, ok := b[label]; (!ok || other != value) && !SetByBinding(label) {
			return false
		}
	}
	return true
}

// sameAffinity treats nil and empty as different. That is several times faster, and costs no more
// than a log entry.
func sameAffinity(a, b *corev1.Affinity) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a, b)
}

func sameNodeClaims(a, b []corev1.NodeAllocatableResourceClaimStatus) bool {
	return len(a) == 0 && len(b) == 0 || apiequality.Semantic.DeepEqual(a, b)
}

// sameClaims compares the claims among the volumes. Other volumes may be missing in one object,
// since informers drop some of them once the pod is bound.
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

// sameRequestInputs reports whether two objects of a pod are equal in everything that the pod's
// requests are computed from. It may return false for equal ones. The inputs are those of
// PodRequests in k8s.io/component-helpers/resource.
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

// runsAsAsked reports whether all containers have the resources that their spec requests, according
// to their status. Then the status, which is set when a pod starts, does not change the requests.
func runsAsAsked(containers []corev1.Container, statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		status := &statuses[i]
		if status.Resources == nil {
			continue
		}
		j := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == status.Name })
		if j < 0 {
			continue // the status of a container without a spec is not used
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

// restarts reports whether an init container is a sidecar.
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

// sameResources reports whether two pods add the same to the sums of a node.
func sameResources(a, b fwk.PodResource) bool {
	return a.Non0CPU == b.Non0CPU && a.Non0Mem == b.Non0Mem &&
		a.Resource.GetMilliCPU() == b.Resource.GetMilliCPU() &&
		a.Resource.GetMemory() == b.Resource.GetMemory() &&
		a.Resource.GetEphemeralStorage() == b.Resource.GetEphemeralStorage() &&
		maps.Equal(a.Resource.GetScalarResources(), b.Resource.GetScalarResources())
}
