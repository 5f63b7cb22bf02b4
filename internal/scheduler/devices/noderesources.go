// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// TakeFromNode writes into the status of a pod that was decided what its devices take from the
// resources of the node that its spec names, as DynamicResources has computed it in the scheduling
// cycle. It replaces what an earlier attempt left there. It reports whether the devices take
// anything: then the pod requests more than the other pods of its class. Without the feature gate
// DRANodeAllocatableResources it does nothing. The caller owns the pod.
//
// PreBind of DynamicResources writes the same to the API server, and fails if the pod has something
// else.
func TakeFromNode(logger klog.Logger, state fwk.CycleState, pod *corev1.Pod) bool {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DRANodeAllocatableResources) {
		return false
	}
	taken := dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(logger, state, pod.Spec.NodeName)
	pod.Status.NodeAllocatableResourceClaimStatuses = taken
	return len(taken) > 0
}

// Unwritten returns a pod as the Unreserve plugins are to see it if no PreBind plugin has run yet.
// before is the pod as it was decided. If the API server has nothing of what the devices take from
// the node, DynamicResources must not clear it there, which would cost a request for each pod of a
// group that is tried in vain, and which a fork must not do.
func Unwritten(pod, before *corev1.Pod) *corev1.Pod {
	if len(pod.Status.NodeAllocatableResourceClaimStatuses) == 0 ||
		len(before.Status.NodeAllocatableResourceClaimStatuses) > 0 {
		return pod
	}
	unwritten := *pod // shallow: nothing below the status is changed
	unwritten.Status.NodeAllocatableResourceClaimStatuses = nil
	return &unwritten
}
