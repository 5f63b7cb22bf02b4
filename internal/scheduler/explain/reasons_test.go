// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

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

// TestReasonsAreThoseOfTheMessages has the messages of the plugins of Kubernetes 1.36 and of
// livesched.
func TestReasonsAreThoseOfTheMessages(t *testing.T) {
	const notFound = `persistentvolumeclaim "data" not found`
	for _, test := range []struct {
		plugin, message string
		want            v1alpha1.RefusalReason
		detail          string
	}{
		{names.NodeResourcesFit, "Insufficient nvidia.com/gpu", v1alpha1.ReasonInsufficientResource, ""},
		{names.NodeResourcesFit, "Too many pods", v1alpha1.ReasonInsufficientResource, ""},
		{names.NodeResourcesFit, "Pod has a restartable init container and the SidecarContainers feature is disabled",
			v1alpha1.ReasonRefused, ""},
		{names.TaintToleration, "node(s) had untolerated taint(s)", v1alpha1.ReasonUntoleratedTaint, ""},
		{names.NodeUnschedulable, nodeunschedulable.ErrReasonUnschedulable, v1alpha1.ReasonCordoned, ""},
		{names.NodeUnschedulable, nodeunschedulable.ErrReasonUnknownCondition, v1alpha1.ReasonRefused, ""},
		{names.NodeAffinity, nodeaffinity.ErrReasonPod, v1alpha1.ReasonNodeAffinityMismatch, ""},
		{names.NodeAffinity, "node(s) didn't match scheduler-enforced node affinity",
			v1alpha1.ReasonNodeAffinityMismatch, ""},
		{names.NodeAffinity, "pod affinity terms conflict", v1alpha1.ReasonNodeAffinityMismatch, ""},
		{names.NodeAffinity, "node(s) didn't satisfy plugin NodeAffinity", v1alpha1.ReasonNodeAffinityMismatch, ""},
		{nodelabel.Name, nodelabel.ErrReason, v1alpha1.ReasonNodeAffinityMismatch, ""},
		{names.NodeName, nodename.ErrReason, v1alpha1.ReasonOtherNodeRequested, ""},
		{names.NodePorts, nodeports.ErrReason, v1alpha1.ReasonHostPortInUse, ""},
		{names.PodTopologySpread, podtopologyspread.ErrReasonConstraintsNotMatch, v1alpha1.ReasonTopologySpread, ""},
		{names.PodTopologySpread, podtopologyspread.ErrReasonNodeLabelNotMatch,
			v1alpha1.ReasonTopologyLabelMissing, ""},
		{names.InterPodAffinity, interpodaffinity.ErrReasonAffinityRulesNotMatch,
			v1alpha1.ReasonPodAffinityNotSatisfied, ""},
		{names.InterPodAffinity, interpodaffinity.ErrReasonAntiAffinityRulesNotMatch,
			v1alpha1.ReasonPodAntiAffinity, ""},
		{names.InterPodAffinity, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch,
			v1alpha1.ReasonAntiAffinityOfOtherPods, ""},
		{names.InterPodAffinity, "parsing pod: no", v1alpha1.ReasonRefused, ""},
		{serviceaffinity.Name, serviceaffinity.ErrReason, v1alpha1.ReasonServiceAffinityNotSatisfied, ""},
		{names.VolumeBinding, notFound, v1alpha1.ReasonClaimNotFound, "the PersistentVolumeClaim data does not exist"},
		{names.VolumeBinding, `waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"`,
			v1alpha1.ReasonClaimNotFound, ""},
		{names.VolumeBinding, `persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"`,
			v1alpha1.ReasonClaimUnusable, ""},
		{names.VolumeBinding, `persistentvolumeclaim "data" is being deleted`, v1alpha1.ReasonClaimUnusable, ""},
		{names.VolumeBinding, "PVC a/data was not created for pod a/p (pod is not owner)",
			v1alpha1.ReasonClaimUnusable, ""},
		{names.VolumeBinding, "pod has unbound immediate PersistentVolumeClaims", v1alpha1.ReasonClaimUnbound, ""},
		{names.VolumeBinding, string(volumebinding.ErrReasonBindConflict), v1alpha1.ReasonVolumeNotAvailable, ""},
		{names.VolumeBinding, string(volumebinding.ErrReasonNotEnoughSpace), v1alpha1.ReasonVolumeNotAvailable, ""},
		{names.VolumeBinding, string(volumebinding.ErrReasonNodeConflict), v1alpha1.ReasonVolumeOnOtherNode, ""},
		{names.VolumeBinding, string(volumebinding.ErrReasonPVNotExist), v1alpha1.ReasonClaimUnusable, ""},
		{names.VolumeZone, volumezone.ErrReasonConflict, v1alpha1.ReasonVolumeInOtherZone, ""},
		{names.VolumeZone, notFound, v1alpha1.ReasonClaimNotFound, "the PersistentVolumeClaim data does not exist"},
		{names.VolumeZone, `persistentvolume "pv" not found`, v1alpha1.ReasonClaimUnusable, ""},
		{names.VolumeZone, `storageclass.storage.k8s.io "fast" not found`, v1alpha1.ReasonClassNotFound,
			"the StorageClass fast does not exist"},
		{names.VolumeZone, "PersistentVolume had no name", v1alpha1.ReasonClaimUnbound, ""},
		{names.VolumeZone, "PersistentVolumeClaim had no pv name and storageClass name",
			v1alpha1.ReasonClaimUnbound, ""},
		{names.VolumeZone, `VolumeBindingMode not set for StorageClass "fast"`, v1alpha1.ReasonClaimUnbound, ""},
		{names.VolumeRestrictions, volumerestrictions.ErrReasonDiskConflict, v1alpha1.ReasonVolumeInUse, ""},
		{names.VolumeRestrictions, volumerestrictions.ErrReasonReadWriteOncePodConflict,
			v1alpha1.ReasonVolumeInUse, ""},
		{names.VolumeRestrictions, notFound, v1alpha1.ReasonClaimNotFound,
			"the PersistentVolumeClaim data does not exist"},
		{names.NodeVolumeLimits, nodevolumelimits.ErrReasonMaxVolumeCountExceeded, v1alpha1.ReasonTooManyVolumes, ""},
		{names.NodeVolumeLimits, "looking up PVC a/data: " + notFound, v1alpha1.ReasonClaimNotFound,
			"the PersistentVolumeClaim data does not exist"},
		{names.NodeVolumeLimits, "csi.example.com CSI driver is not installed on the node",
			v1alpha1.ReasonVolumeDriverMissing, ""},
		{names.DynamicResources, `could not find ResourceClaim "a/gpu"`, v1alpha1.ReasonClaimNotFound,
			"the ResourceClaim gpu does not exist"},
		{names.DynamicResources, `pod "a/p": ResourceClaim not created yet`, v1alpha1.ReasonClaimNotFound, ""},
		{names.DynamicResources, `resourceclaim "gpu" is being deleted`, v1alpha1.ReasonClaimUnusable, ""},
		{names.DynamicResources, "ResourceClaim a/gpu was not created for Pod a/p (Pod is not owner)",
			v1alpha1.ReasonClaimUnusable, ""},
		{names.DynamicResources, "resourceclaim in use", v1alpha1.ReasonClaimUnusable, ""},
		{names.DynamicResources, "resource claim a/gpu is in the process of being allocated",
			v1alpha1.ReasonClaimUnusable, ""},
		{names.DynamicResources, "request gpu: device class big does not exist", v1alpha1.ReasonClassNotFound,
			"the DeviceClass big does not exist"},
		{names.DynamicResources, "resourceclaim not available on the node", v1alpha1.ReasonDeviceNotAvailable, ""},
		{names.DynamicResources, "cannot allocate all claims", v1alpha1.ReasonDeviceNotAvailable, ""},
		{names.DynamicResources, "Insufficient memory", v1alpha1.ReasonInsufficientResource, ""},
		{names.DynamicResources, "plugin disabled", v1alpha1.ReasonRefused, ""},
		{names.NodeDeclaredFeatures, "node(s) didn't match Pod's required features",
			v1alpha1.ReasonNodeFeatureMissing, ""},
		{"Quota", "Insufficient cpu", v1alpha1.ReasonRefused, ""},
	} {
		status := fwk.NewStatus(fwk.Unschedulable, test.message).WithPlugin(test.plugin)
		got := reasonOf(status)
		if got != test.want {
			t.Errorf("%s, %q: got %s, want %s", test.plugin, test.message, got, test.want)
		}
		if test.want == v1alpha1.ReasonClaimUnbound {
			continue // names what the API server has
		}
		if detail := new(details).ofPod(status, got); detail != test.detail {
			t.Errorf("%s, %q: got the detail %q, want %q", test.plugin, test.message, detail, test.detail)
		}
	}
}

func TestTheWorstOfSeveralMessagesCounts(t *testing.T) {
	status := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, string(volumebinding.ErrReasonBindConflict),
		string(volumebinding.ErrReasonNodeConflict))
	if got := (reasons{}).of(status.WithPlugin(names.VolumeBinding)); got != v1alpha1.ReasonVolumeOnOtherNode {
		t.Errorf("got %s", got)
	}
}
