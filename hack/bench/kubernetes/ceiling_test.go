// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func podWith(name, cpu string, priority int32) *corev1.Pod {
	pod := standardPod()
	pod.Name = name
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	if priority != 0 {
		pod.Spec.Priority = ptr.To(priority)
	}
	return pod
}

func TestTheCeilingPlacesRoundRobinAndEvictsOnlyForPriorities(t *testing.T) {
	b := &binder{}
	for i := range 2 {
		node := standardNode("")
		node.Name = fmt.Sprintf("n%d", i)
		b.addNode(node)
	}
	churned := &corev1.Node{}
	b.addNode(churned) // has no room for pods
	for i, test := range []struct {
		pod     *corev1.Pod
		node    string
		victims string
	}{
		{podWith("a", "3", 0), "n0", ""},
		{podWith("b", "3", 0), "n1", ""},
		{podWith("c", "3", 0), "n0", ""}, // the API server does not count
		{podWith("big", "5", 0), "", ""},
		{podWith("important", "3", 10), "n1", "b"},
		{podWith("more", "3", 10), "n0", "a,c"},
		{podWith("last", "1", 10), "n1", ""},
	} {
		node, victims, err := b.place(t.Context(), test.pod)
		var names []string
		for _, victim := range victims {
			names = append(names, victim.Name)
		}
		if err != nil || node != test.node || strings.Join(names, ",") != test.victims {
			t.Errorf("%d: %s is on %q, evicts %v, %v", i, test.pod.Name, node, names, err)
		}
	}
}

func TestMadeUpAllocationsHaveADeviceForEachRequest(t *testing.T) {
	claim := &resourcev1.ResourceClaim{}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{}},
		{Name: "two", Exactly: &resourcev1.ExactDeviceRequest{Count: 2}},
		{Name: "first", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "a"}, {Name: "b"}}},
	}
	var got []string
	for _, result := range madeUp(claim, "n0").Devices.Results {
		got = append(got, result.Request+"="+result.Device)
	}
	if want := "one=device-0 two=device-1 two=device-2 first/a=device-3"; strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
}

func TestThereIsNoCeilingWhereASchedulerMustRefuse(t *testing.T) {
	want := map[string]string{
		"EventHandlingNodeAdd": "refuse", "StarvationIndependent": "refuse", "PublishResourceSlices": "no pods",
		"ExtendedResource": "devices", "SharedPodGroupResourceClaim": "PodGroups",
		"SchedulingBasic": "", "SchedulingWhileGated": "", "PreemptionBasic": "", "SchedulingWithExtendedResource": "",
		"SchedulingDeletedPodsWithFinalizers": "", "SchedulingWithResourceClaimTemplate": "",
	}
	for _, c := range theCases(t) {
		reason, ok := want[c.Name]
		if !ok {
			continue
		}
		delete(want, c.Name)
		p, err := c.Workloads[0].plan(limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.noCeiling(); (got == "") != (reason == "") || !strings.Contains(got, reason) {
			t.Errorf("%s: %q", c.Name, got)
		}
	}
	for name := range want {
		t.Errorf("there is no case %s", name)
	}
}
