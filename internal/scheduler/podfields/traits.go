// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/storage/ephemeral"
)

// UsesVolumeClaims reports whether a pod has persistent volume claims.
func UsesVolumeClaims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
}

// VolumeClaimNames are the names of the persistent volume claims of a pod, those for its ephemeral
// volumes included, in the order of its volumes.
func VolumeClaimNames(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range pod.Spec.Volumes {
			v, name := &pod.Spec.Volumes[i], ""
			switch {
			case v.PersistentVolumeClaim != nil:
				name = v.PersistentVolumeClaim.ClaimName
			case v.Ephemeral != nil:
				name = ephemeral.VolumeClaimName(pod, v)
			default:
				continue
			}
			if !yield(name) {
				return
			}
		}
	}
}

// UsesDevices reports whether a pod has resource claims, or requests a resource that devices may
// back.
func UsesDevices(pod *corev1.Pod, backed func(corev1.ResourceName) bool) bool {
	return len(pod.Spec.ResourceClaims) > 0 || RequestsAny(pod, backed)
}

// RequestsExtended reports whether a pod requests anything but the resources that every node has.
// Such a resource may come from a device plugin, or be backed by devices of a DeviceClass.
func RequestsExtended(pod *corev1.Pod) bool {
	return RequestsAny(pod, func(name corev1.ResourceName) bool {
		return name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage
	})
}

// RequestsAny reports whether a pod requests one of the resources that is selects.
func RequestsAny(pod *corev1.Pod, is func(corev1.ResourceName) bool) bool {
	has := func(list corev1.ResourceList) bool {
		for name := range list {
			if is(name) {
				return true
			}
		}
		return false
	}
	for _, containers := range containersOf(pod) {
		for i := range containers {
			if has(containers[i].Resources.Requests) {
				return true
			}
		}
	}
	return has(pod.Spec.Overhead) || pod.Spec.Resources != nil && has(pod.Spec.Resources.Requests)
}

// WithoutResources returns the pod without its requests and limits for the resources that is
// selects.
func WithoutResources(pod *corev1.Pod, is func(corev1.ResourceName) bool) *corev1.Pod {
	without := func(list corev1.ResourceList) corev1.ResourceList {
		list = maps.Clone(list)
		maps.DeleteFunc(list, func(name corev1.ResourceName, _ resource.Quantity) bool { return is(name) })
		return list
	}
	own := *pod // shallow: what is changed below is cloned first
	own.Spec.Overhead = without(own.Spec.Overhead)
	if own.Spec.Resources != nil {
		resources := *own.Spec.Resources
		resources.Requests, resources.Limits = without(resources.Requests), without(resources.Limits)
		own.Spec.Resources = &resources
	}
	for _, containers := range []*[]corev1.Container{&own.Spec.InitContainers, &own.Spec.Containers} {
		*containers = slices.Clone(*containers)
		for i := range *containers {
			resources := &(*containers)[i].Resources
			resources.Requests, resources.Limits = without(resources.Requests), without(resources.Limits)
		}
	}
	return &own
}

// ReportsResources reports whether a pod's status has resources, or says that the spec does not
// count because the node cannot resize the pod to it, as for a running pod. The requests of the pod
// then do not follow from its spec.
func ReportsResources(pod *corev1.Pod) bool {
	status := &pod.Status
	return len(status.ContainerStatuses) > 0 || len(status.InitContainerStatuses) > 0 ||
		status.Resources != nil || len(status.AllocatedResources) > 0 ||
		len(status.NodeAllocatableResourceClaimStatuses) > 0 || resourcehelper.IsPodResizeInfeasible(pod)
}

// ResizeDeferred reports whether a pod is on a node whose kubelet has put off its resize until
// there is room. The resize of a pod that terminates does not matter any more.
func ResizeDeferred(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && resourcehelper.IsPodResizeDeferred(pod)
}

// Unassign takes a copy of a pod off its node, in fields that belong to the copy: a pod on no node
// has no deferred resize, and its devices take nothing from a node.
func Unassign(pod *corev1.Pod) {
	pod.Spec.NodeName, pod.Status.NodeAllocatableResourceClaimStatuses = "", nil
	if resourcehelper.IsPodResizeDeferred(pod) {
		pod.Status.Conditions = slices.DeleteFunc(slices.Clone(pod.Status.Conditions),
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	}
}

// HasClaims reports whether a pod has claims of volumes or devices, or volumes that not every node
// can mount.
func HasClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || !OrdinaryVolumes(pod)
}

// OrdinaryVolumes reports whether all volumes of a pod are ordinary.
func OrdinaryVolumes(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if !OrdinaryVolume(&pod.Spec.Volumes[i].VolumeSource) {
			return false
		}
	}
	return true
}

// OrdinaryVolume reports whether every node can mount a volume of this kind any number of times.
func OrdinaryVolume(v *corev1.VolumeSource) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil ||
		v.HostPath != nil || v.Image != nil || v.NFS != nil || v.CSI != nil
}

// StaysWithNode reports whether a pod runs as long as its node, and no other node can take it: a
// pod of a DaemonSet, or a static pod. A new node of the same kind has such a pod, too. The API
// server knows a static pod by its mirror pod, which the kubelet annotates, and whose controller is
// the Node.
//
// The priority class does not matter: pods that are critical for the cluster, such as the pods of a
// DNS server, may move.
func StaysWithNode(pod *corev1.Pod) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}
