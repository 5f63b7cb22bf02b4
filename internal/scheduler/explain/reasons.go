// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"regexp"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
)

// saying is the message of a plugin that refuses a pod for a reason. In the message, * stands for
// any text.
type saying struct {
	message string
	reason  v1alpha1.RefusalReason
}

// aboutClaims are messages that several plugins have for claims that they cannot use.
var aboutClaims = []saying{
	{`*persistentvolumeclaim "*" not found`, v1alpha1.ReasonClaimNotFound},
	{`waiting for ephemeral volume controller to create the persistentvolumeclaim "*"`, v1alpha1.ReasonClaimNotFound},
	{`persistentvolumeclaim "*" bound to non-existent persistentvolume "*"`, v1alpha1.ReasonClaimUnusable},
	{`persistentvolumeclaim "*" is being deleted`, v1alpha1.ReasonClaimUnusable},
	{`PVC * was not created for pod * (pod is not owner)`, v1alpha1.ReasonClaimUnusable},
	{`persistentvolume "*" not found`, v1alpha1.ReasonClaimUnusable},
	{`storageclass.storage.k8s.io "*" not found`, v1alpha1.ReasonClassNotFound},
}

// sayings are the messages of plugins, of which the first that a status has counts.
var sayings = map[string][]saying{
	names.NodeResourcesFit: {
		{"Insufficient *", v1alpha1.ReasonInsufficientResource},
		{"Too many pods", v1alpha1.ReasonInsufficientResource},
	},
	names.TaintToleration:   {{"node(s) had untolerated taint(s)", v1alpha1.ReasonUntoleratedTaint}},
	names.NodeUnschedulable: {{nodeunschedulable.ErrReasonUnschedulable, v1alpha1.ReasonCordoned}},
	names.NodeAffinity: {
		{nodeaffinity.ErrReasonPod, v1alpha1.ReasonNodeAffinityMismatch},
		{enforcedAffinity, v1alpha1.ReasonNodeAffinityMismatch},
		{"pod affinity terms conflict", v1alpha1.ReasonNodeAffinityMismatch},
		{notNamed, v1alpha1.ReasonNodeAffinityMismatch},
	},
	nodelabel.Name:  {{nodelabel.ErrReason, v1alpha1.ReasonNodeAffinityMismatch}},
	names.NodeName:  {{nodename.ErrReason, v1alpha1.ReasonOtherNodeRequested}},
	names.NodePorts: {{nodeports.ErrReason, v1alpha1.ReasonHostPortInUse}},
	names.PodTopologySpread: {
		{podtopologyspread.ErrReasonNodeLabelNotMatch, v1alpha1.ReasonTopologyLabelMissing},
		{podtopologyspread.ErrReasonConstraintsNotMatch, v1alpha1.ReasonTopologySpread},
	},
	names.InterPodAffinity: {
		{interpodaffinity.ErrReasonAffinityRulesNotMatch, v1alpha1.ReasonPodAffinityNotSatisfied},
		{interpodaffinity.ErrReasonAntiAffinityRulesNotMatch, v1alpha1.ReasonPodAntiAffinity},
		{interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch, v1alpha1.ReasonAntiAffinityOfOtherPods},
	},
	serviceaffinity.Name: {{serviceaffinity.ErrReason, v1alpha1.ReasonServiceAffinityNotSatisfied}},
	names.VolumeBinding: append([]saying{
		{"pod has unbound immediate PersistentVolumeClaims", v1alpha1.ReasonClaimUnbound},
		{string(volumebinding.ErrReasonPVNotExist), v1alpha1.ReasonClaimUnusable},
		{string(volumebinding.ErrReasonNodeConflict), v1alpha1.ReasonVolumeOnOtherNode},
		{string(volumebinding.ErrReasonBindConflict), v1alpha1.ReasonVolumeNotAvailable},
		{string(volumebinding.ErrReasonNotEnoughSpace), v1alpha1.ReasonVolumeNotAvailable},
	}, aboutClaims...),
	names.VolumeZone: append([]saying{
		{volumezone.ErrReasonConflict, v1alpha1.ReasonVolumeInOtherZone},
		{"PersistentVolume had no name", v1alpha1.ReasonClaimUnbound},
		{"PersistentVolumeClaim had no pv name and storageClass name", v1alpha1.ReasonClaimUnbound},
		{`VolumeBindingMode not set for StorageClass "*"`, v1alpha1.ReasonClaimUnbound},
	}, aboutClaims...),
	names.VolumeRestrictions: append([]saying{
		{volumerestrictions.ErrReasonDiskConflict, v1alpha1.ReasonVolumeInUse},
		{volumerestrictions.ErrReasonReadWriteOncePodConflict, v1alpha1.ReasonVolumeInUse},
	}, aboutClaims...),
	names.NodeVolumeLimits: append([]saying{
		{nodevolumelimits.ErrReasonMaxVolumeCountExceeded, v1alpha1.ReasonTooManyVolumes},
		{"* CSI driver is not installed on the node", v1alpha1.ReasonVolumeDriverMissing},
	}, aboutClaims...),
	names.DynamicResources: {
		{`could not find * "*"`, v1alpha1.ReasonClaimNotFound},
		{"pod * ResourceClaim not created yet", v1alpha1.ReasonClaimNotFound},
		{`resourceclaim "*" is being deleted`, v1alpha1.ReasonClaimUnusable},
		{"ResourceClaim * was not created for *", v1alpha1.ReasonClaimUnusable},
		{"resourceclaim in use", v1alpha1.ReasonClaimUnusable},
		{"resource claim * is in the process of being allocated", v1alpha1.ReasonClaimUnusable},
		{"node allocatable resource claim * has a mapped device and cannot be shared across pods",
			v1alpha1.ReasonClaimUnusable},
		{"request *: device class * does not exist", v1alpha1.ReasonClassNotFound},
		{"resourceclaim not available on the node", v1alpha1.ReasonDeviceNotAvailable},
		{"cannot allocate all claims", v1alpha1.ReasonDeviceNotAvailable},
		{"cannot schedule extended resource claim", v1alpha1.ReasonDeviceNotAvailable},
		{"cannot fit resource", v1alpha1.ReasonDeviceNotAvailable},
		{"invalid resource pools were encountered", v1alpha1.ReasonDeviceNotAvailable},
		{"Insufficient *", v1alpha1.ReasonInsufficientResource},
	},
	names.NodeDeclaredFeatures: {{"node(s) didn't match Pod's required features", v1alpha1.ReasonNodeFeatureMissing}},
}

// notNamed is the message of livesched for a node that is not one of those that a PreFilter plugin
// has named.
const notNamed = "node(s) didn't satisfy plugin *"

// enforcedAffinity is the message for a node that does not match the node affinity that the profile
// adds.
const enforcedAffinity = "node(s) didn't match scheduler-enforced node affinity"

// patterns are the expressions for sayings with a *.
var patterns = func() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for _, of := range sayings {
		for _, s := range of {
			if strings.Contains(s.message, "*") {
				all[s.message] = regexp.MustCompile("^" +
					strings.ReplaceAll(regexp.QuoteMeta(s.message), `\*`, ".*") + "$")
			}
		}
	}
	return all
}()

// reasonOf returns the reason of a refusal, or v1alpha1.ReasonRefused if the message is not known.
func reasonOf(refusal *fwk.Status) v1alpha1.RefusalReason {
	for _, s := range sayings[refusal.Plugin()] {
		for _, message := range refusal.Reasons() {
			pattern := patterns[s.message]
			if pattern == nil && message == s.message || pattern != nil && pattern.MatchString(message) {
				return s.reason
			}
		}
	}
	return v1alpha1.ReasonRefused
}

// reasons remembers the reasons of statuses: most nodes say the same.
type reasons map[string]v1alpha1.RefusalReason

func (r reasons) of(refusal *fwk.Status) v1alpha1.RefusalReason {
	messages := refusal.Reasons()
	if len(messages) != 1 {
		return reasonOf(refusal)
	}
	key := refusal.Plugin() + "\x00" + messages[0]
	reason, ok := r[key]
	if !ok {
		reason = reasonOf(refusal)
		r[key] = reason
	}
	return reason
}

// isAboutClaims reports whether a refusal is about a claim of the pod, whatever the node is.
func isAboutClaims(reason v1alpha1.RefusalReason) bool {
	return slices.Contains([]v1alpha1.RefusalReason{
		v1alpha1.ReasonClaimNotFound, v1alpha1.ReasonClaimUnbound, v1alpha1.ReasonClaimUnusable,
		v1alpha1.ReasonClassNotFound,
	}, reason)
}

// resolvable reports whether the pod might fit if other pods left the node.
func resolvable(refusal *fwk.Status) bool { return refusal.Code() == fwk.Unschedulable }
