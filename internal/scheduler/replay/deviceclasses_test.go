// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
)

// TestADeviceClassInASnapshot simulates pods that request a resource by its name. Only devices of a
// class back it, and there is one.
func TestADeviceClassInASnapshot(t *testing.T) {
	const name = "example.com/accelerator"
	w, pods := inRacks(t, 2)
	for _, pod := range pods {
		one := corev1.ResourceList{name: resource.MustParse("1")}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	}
	class, device := objects.DeviceClass("accelerators"), objects.Device("device", "")
	class.Spec.ExtendedResourceName = ptr.To(name)
	device.Spec.NodeName, device.Spec.AllNodes = nil, ptr.To(true)
	snapshot := w.snapshot(false)
	snapshot.Pending = pods
	snapshot.Objects = append(snapshot.Objects, class, device)
	if got := w.unplaced(snapshot); got != 1 {
		t.Errorf("%d of 2 pods got no node, want 1", got)
	}
}
