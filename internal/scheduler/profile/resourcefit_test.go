// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// oneClass is a manager of devices with one class, which backs a resource.
type oneClass struct {
	fwk.SharedDRAManager
	backs corev1.ResourceName
}

func (c oneClass) DeviceClassResolver() fwk.DeviceClassResolver { return c }

func (c oneClass) GetDeviceClass(name corev1.ResourceName) *resourcev1.DeviceClass {
	if name != c.backs {
		return nil
	}
	return &resourcev1.DeviceClass{}
}

func TestResourcesOfDeviceClassesAreNotLookedForOnNodes(t *testing.T) {
	const gpu = "example.com/gpu"
	const implicit = corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu")
	for _, test := range []struct {
		name, backed corev1.ResourceName
		ignored      []string
		want         bool
	}{
		{name: corev1.ResourceCPU, backed: gpu, want: true},
		{name: corev1.ResourceCPU, ignored: []string{"example.com/other"}, want: true},
		{name: gpu, backed: implicit, want: true},
		{name: gpu, backed: gpu},
		{name: gpu, ignored: []string{"example.com/other"}},
		{name: implicit, backed: gpu, want: true},
		{name: implicit, backed: implicit},
	} {
		args := &schedconfig.NodeResourcesFitArgs{IgnoredResources: test.ignored}
		managers := &devices.Managers{DRA: oneClass{backs: test.backed}}
		i := &Instance{handle: &Handle{env: &Environment{Devices: managers}}, Config: &resolve.Profile{
			Config: &schedconfig.KubeSchedulerProfile{PluginConfig: []schedconfig.PluginConfig{{Args: args}}}}}
		if got := i.ChecksOnNodes(test.name); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}
