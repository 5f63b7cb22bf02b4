// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/livesched/livesched/api/v1alpha1"
)

// reasons are the reasons of plugins that refuse pods for one reason.
var reasons = map[string]v1alpha1.RefusalReason{
	names.NodeResourcesFit:     v1alpha1.ReasonInsufficientResource,
	names.TaintToleration:      v1alpha1.ReasonUntoleratedTaint,
	names.NodeUnschedulable:    v1alpha1.ReasonCordoned,
	names.NodeAffinity:         v1alpha1.ReasonNodeAffinityMismatch,
	names.NodeName:             v1alpha1.ReasonOtherNodeRequested,
	names.NodePorts:            v1alpha1.ReasonHostPortInUse,
	names.PodTopologySpread:    v1alpha1.ReasonTopologySpread,
	names.InterPodAffinity:     v1alpha1.ReasonPodAffinityNotSatisfied,
	names.VolumeBinding:        v1alpha1.ReasonVolumeNotAvailable,
	names.VolumeZone:           v1alpha1.ReasonVolumeInOtherZone,
	names.VolumeRestrictions:   v1alpha1.ReasonVolumeInUse,
	names.NodeVolumeLimits:     v1alpha1.ReasonTooManyVolumes,
	names.DynamicResources:     v1alpha1.ReasonDeviceNotAvailable,
	names.NodeDeclaredFeatures: v1alpha1.ReasonNodeFeatureMissing,
}

// reasonOf returns the reason of a refusal.
func reasonOf(refusal *fwk.Status) v1alpha1.RefusalReason {
	has := func(message string) bool { return slices.Contains(refusal.Reasons(), message) }
	switch plugin := refusal.Plugin(); {
	case plugin == names.InterPodAffinity && has(interpodaffinity.ErrReasonAntiAffinityRulesNotMatch):
		return v1alpha1.ReasonPodAntiAffinity
	case plugin == names.InterPodAffinity && has(interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch):
		return v1alpha1.ReasonAntiAffinityOfOtherPods
	case plugin == names.PodTopologySpread && has(podtopologyspread.ErrReasonNodeLabelNotMatch):
		return v1alpha1.ReasonTopologyLabelMissing
	case reasons[plugin] != "":
		return reasons[plugin]
	}
	return v1alpha1.ReasonRefused
}

// resolvable reports whether the pod might fit if other pods left the node.
func resolvable(refusal *fwk.Status) bool { return refusal.Code() == fwk.Unschedulable }
