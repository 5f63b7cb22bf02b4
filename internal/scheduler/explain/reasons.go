// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
)

// Reasons do not change between versions, so that programs can use them.
const (
	reasonRefused      = "Refused"
	reasonPodAffinity  = "PodAffinityNotSatisfied"
	reasonAntiAffinity = "PodAntiAffinity"
	reasonOthersAnti   = "AntiAffinityOfOtherPods"
	reasonSpread       = "TopologySpread"
	reasonSpreadLabel  = "TopologyLabelMissing"
)

// reasons are the reasons of plugins that refuse pods for one reason.
var reasons = map[string]string{
	names.NodeResourcesFit:     "InsufficientResource",
	names.TaintToleration:      "UntoleratedTaint",
	names.NodeUnschedulable:    "Cordoned",
	names.NodeAffinity:         "NodeAffinityMismatch",
	names.NodeName:             "OtherNodeRequested",
	names.NodePorts:            "HostPortInUse",
	names.PodTopologySpread:    reasonSpread,
	names.InterPodAffinity:     reasonPodAffinity,
	names.VolumeBinding:        "VolumeNotAvailable",
	names.VolumeZone:           "VolumeInOtherZone",
	names.VolumeRestrictions:   "VolumeInUse",
	names.NodeVolumeLimits:     "TooManyVolumes",
	names.DynamicResources:     "DeviceNotAvailable",
	names.NodeDeclaredFeatures: "NodeFeatureMissing",
}

// reasonOf returns the reason of a refusal.
func reasonOf(refusal *fwk.Status) string {
	has := func(message string) bool { return slices.Contains(refusal.Reasons(), message) }
	switch plugin := refusal.Plugin(); {
	case plugin == names.InterPodAffinity && has(interpodaffinity.ErrReasonAntiAffinityRulesNotMatch):
		return reasonAntiAffinity
	case plugin == names.InterPodAffinity && has(interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch):
		return reasonOthersAnti
	case plugin == names.PodTopologySpread && has(podtopologyspread.ErrReasonNodeLabelNotMatch):
		return reasonSpreadLabel
	case reasons[plugin] != "":
		return reasons[plugin]
	}
	return reasonRefused
}

// resolvable reports whether the pod might fit if other pods left the node.
func resolvable(refusal *fwk.Status) bool { return refusal.Code() == fwk.Unschedulable }
