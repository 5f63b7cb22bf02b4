// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// SameNode reports whether two objects of a node are equal in labels, annotations, spec and status,
// except for the parts of the status that kubelets and controllers update all the time and no
// in-tree plugin reads: conditions (plugins read the taints that they cause), and the volumes in
// use and attached (attach limits count VolumeAttachments). The results of a plugin that reads
// these must not be cached.
func SameNode(a, b *corev1.Node) bool {
	return a == b || a.UID == b.UID &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(a.Annotations, b.Annotations) &&
		sameQuantities(a.Status.Allocatable, b.Status.Allocatable) &&
		sameQuantities(a.Status.Capacity, b.Status.Capacity) &&
		SameImages(a.Status.Images, b.Status.Images) &&
		apiequality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		apiequality.Semantic.DeepEqual(lastingStatus(a), lastingStatus(b))
}

// lastingStatus returns the part of a status that SameNode does not compare field by field.
func lastingStatus(node *corev1.Node) corev1.NodeStatus {
	status := node.Status
	status.Allocatable, status.Capacity, status.Images = nil, nil, nil
	status.Conditions, status.VolumesInUse, status.VolumesAttached = nil, nil, nil
	return status
}

// SameImages reports whether two nodes have the same images.
func SameImages(a, b []corev1.ContainerImage) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.ContainerImage) bool {
		return x.SizeBytes == y.SizeBytes && slices.Equal(x.Names, y.Names)
	})
}

func sameQuantities(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// SameForOthers compares two objects of an assigned pod in everything that matters to pending pods
// and to the sums of its node, except for labels and requests: termination, (anti-)affinity, host
// ports, claims. Other volumes, the priority and the scheduling group never change.
func SameForOthers(a, b *corev1.Pod) bool {
	return (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		sameAffinity(a.Spec.Affinity, b.Spec.Affinity) &&
		slices.EqualFunc(slices.Collect(hostPorts(a)), slices.Collect(hostPorts(b)), samePort) &&
		slices.Equal(claimNames(a.Spec.Volumes), claimNames(b.Spec.Volumes)) &&
		sameNodeClaims(a, b)
}

func samePort(x, y *corev1.ContainerPort) bool {
	return x.HostPort == y.HostPort && x.Protocol == y.Protocol && x.HostIP == y.HostIP
}

// sameAffinity treats nil and empty as different. That is several times faster, and costs no more
// than a log entry of the cache.
func sameAffinity(a, b *corev1.Affinity) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a, b)
}

// sameNodeClaims reports whether the claims of two pods take the same from the resources of a node.
func sameNodeClaims(a, b *corev1.Pod) bool {
	x, y := a.Status.NodeAllocatableResourceClaimStatuses, b.Status.NodeAllocatableResourceClaimStatuses
	return len(x) == 0 && len(y) == 0 || apiequality.Semantic.DeepEqual(x, y)
}

// claimNames returns the names of the claims among volumes. Other volumes may be missing in one
// object of a pod, since Drop removes some of them once the pod is bound.
func claimNames(volumes []corev1.Volume) (names []string) {
	for i := range volumes {
		if claim := volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// SameRequests reports whether the specs of two pods request the same. That is quicker to see than
// what they request.
func SameRequests(a, b *corev1.Pod) bool {
	return sameContainers(a, b, func(x, y *corev1.Container) bool {
		return ptr.Equal(x.RestartPolicy, y.RestartPolicy) && sameQuantities(x.Resources.Requests, y.Resources.Requests)
	}) && sameQuantities(a.Spec.Overhead, b.Spec.Overhead) && samePodRequests(a.Spec.Resources, b.Spec.Resources)
}

// SameNodes reports whether two pods may be on the same nodes, as far as the names, labels and
// taints of nodes go.
func SameNodes(a, b *corev1.Pod) bool {
	return a.Spec.NodeName == b.Spec.NodeName && maps.Equal(a.Spec.NodeSelector, b.Spec.NodeSelector) &&
		reflect.DeepEqual(RequiredNodeSelector(a), RequiredNodeSelector(b)) &&
		slices.EqualFunc(a.Spec.Tolerations, b.Spec.Tolerations,
			func(x, y corev1.Toleration) bool { return x.MatchToleration(&y) })
}

// RequiredNodeSelector returns the required node affinity of a pod, or nil if there is none.
func RequiredNodeSelector(pod *corev1.Pod) *corev1.NodeSelector {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// SameConstraints reports whether two pods of a namespace request the same of nodes and of what is
// on them: whether they differ at most in labels, and in what no filter reads.
func SameConstraints(a, b *corev1.Pod) bool {
	return SameRequests(a, b) && SameNodes(a, b) && SameForOthers(a, b) &&
		reflect.DeepEqual(a.Spec.TopologySpreadConstraints, b.Spec.TopologySpreadConstraints) &&
		reflect.DeepEqual(a.Spec.ResourceClaims, b.Spec.ResourceClaims) && sameFeatures(a, b)
}

// sameFeatures reports whether two pods need the same features of nodes (NodeDeclaredFeatures).
func sameFeatures(a, b *corev1.Pod) bool {
	return a.Spec.HostNetwork == b.Spec.HostNetwork && ptr.Equal(a.Spec.HostUsers, b.Spec.HostUsers) &&
		sameContainers(a, b, func(x, y *corev1.Container) bool {
			return reflect.DeepEqual(x.RestartPolicyRules, y.RestartPolicyRules) &&
				slices.ContainsFunc(x.VolumeMounts, needsFeature) == slices.ContainsFunc(y.VolumeMounts, needsFeature)
		})
}

// sameContainers compares the containers of two pods in pairs. A container is large to copy.
func sameContainers(a, b *corev1.Pod, same func(x, y *corev1.Container) bool) bool {
	of, other := containersOf(a), containersOf(b)
	for i := range of {
		if len(of[i]) != len(other[i]) {
			return false
		}
		for j := range of[i] {
			if !same(&of[i][j], &other[i][j]) {
				return false
			}
		}
	}
	return true
}

// SameRequestInputs reports whether two pods are equal in everything that their requests are
// computed from, by spec and status. It may return false for equal ones. PodRequests in
// k8s.io/component-helpers/resource has the same inputs.
func SameRequestInputs(a, b *corev1.Pod) bool {
	return SameRequests(a, b) &&
		samePodRequests(a.Status.Resources, b.Status.Resources) &&
		sameQuantities(a.Status.AllocatedResources, b.Status.AllocatedResources) &&
		sameNodeClaims(a, b) &&
		(podRunsAsAsked(a) && podRunsAsAsked(b) ||
			resourcehelper.IsPodResizeInfeasible(a) == resourcehelper.IsPodResizeInfeasible(b) && sameReported(a, b))
}

// podRunsAsAsked reports whether all containers have the resources that their spec requests,
// according to their status. Then the status, which is set when a pod starts, does not change the
// requests.
func podRunsAsAsked(pod *corev1.Pod) bool {
	return !resourcehelper.IsPodResizeInfeasible(pod) &&
		runsAsAsked(pod.Spec.Containers, pod.Status.ContainerStatuses) &&
		runsAsAsked(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
}

func runsAsAsked(containers []corev1.Container, statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		status := &statuses[i]
		if status.Resources == nil && status.AllocatedResources == nil {
			continue
		}
		j := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == status.Name })
		if j < 0 {
			continue // the status of a container without a spec is not used
		}
		asked := containers[j].Resources.Requests
		if status.Resources != nil && status.Resources.Requests != nil &&
			!sameQuantities(status.Resources.Requests, asked) ||
			status.AllocatedResources != nil && !sameQuantities(status.AllocatedResources, asked) {
			return false
		}
	}
	return true
}

// sameReported compares the resources that the statuses report of each container.
func sameReported(a, b *corev1.Pod) bool {
	return sameContainers(a, b, func(x, y *corev1.Container) bool { return x.Name == y.Name }) &&
		sameStatuses(a.Status.ContainerStatuses, b.Status.ContainerStatuses) &&
		sameStatuses(a.Status.InitContainerStatuses, b.Status.InitContainerStatuses)
}

func sameStatuses(a, b []corev1.ContainerStatus) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.ContainerStatus) bool {
		return x.Name == y.Name && samePodRequests(x.Resources, y.Resources) &&
			sameQuantities(x.AllocatedResources, y.AllocatedResources)
	})
}

func samePodRequests(a, b *corev1.ResourceRequirements) bool {
	return a == b || a != nil && b != nil && sameQuantities(a.Requests, b.Requests)
}
