// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
)

// TestTheClaimOfAGroupInASnapshot simulates a gang whose pods share a device. Its claim was made
// from the template of the group.
func TestTheClaimOfAGroupInASnapshot(t *testing.T) {
	for _, test := range []struct {
		name            string
		gate            bool
		owner, template string // of the claim
		unplaced        int32
	}{
		{"with the feature gate", true, "g", "template", 0},
		{"without it", false, "g", "template", 3},
		{"a claim of another group", true, "other", "template", 3},
		{"a claim of nobody, without the feature gate", false, "", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			gates := featuregatetesting.FeatureOverrides{
				features.GenericWorkload: test.gate, features.DRAWorkloadResourceClaims: test.gate,
			}
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, gates)
			w, pods := inRacks(t, 3)
			group := objects.KubernetesPodGroup("g", 3, "")
			group.UID = "group"
			wanted := schedulingv1beta1.PodGroupResourceClaim{Name: "device", ResourceClaimName: ptr.To("claim")}
			claim, device := objects.DeviceClaim("claim", "class"), objects.Device("device", "")
			claim.UID = "claim"
			request := claim.Spec.Devices.Requests[0].Exactly // the API server has set these defaults
			request.AllocationMode, request.Count = resourcev1.DeviceAllocationModeExactCount, 1
			device.Spec.NodeName, device.Spec.AllNodes = nil, ptr.To(true)
			if test.template != "" {
				owner := group.DeepCopy()
				owner.Name = test.owner
				claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner,
					schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"))}
				wanted = schedulingv1beta1.PodGroupResourceClaim{Name: "device",
					ResourceClaimTemplateName: ptr.To(test.template)}
			}
			group.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{wanted}
			for _, pod := range pods {
				pod.Namespace = metav1.NamespaceDefault
				objects.InGroup("g")(pod)
				pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{
					Name: "device", ResourceClaimName: wanted.ResourceClaimName,
					ResourceClaimTemplateName: wanted.ResourceClaimTemplateName,
				}}
				pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "device",
					ResourceClaimName: ptr.To("claim")}}
			}
			snapshot := w.snapshot(false)
			snapshot.Pending = pods
			snapshot.Objects = append(snapshot.Objects, group, claim, device, objects.DeviceClass("class"))
			snapshot.Header.ResourceVersions["PodGroup.scheduling.k8s.io"] = "1"
			if got := w.unplaced(snapshot); got != test.unplaced {
				t.Errorf("%d pods got no node, want %d", got, test.unplaced)
			}
		})
	}
}
