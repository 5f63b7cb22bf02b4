// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestAPodThatCannotBeResizedReportsResources(t *testing.T) {
	for name, test := range map[string]struct {
		kind   corev1.PodConditionType
		reason string
		want   bool
	}{
		"infeasible":                     {corev1.PodResizePending, corev1.PodReasonInfeasible, true},
		"deferred":                       {corev1.PodResizePending, corev1.PodReasonDeferred, false},
		"another condition":              {corev1.PodScheduled, corev1.PodReasonInfeasible, false},
		"a condition that fits nowhere":  {corev1.PodScheduled, corev1.PodReasonUnschedulable, false},
		"a resize that is being applied": {corev1.PodResizeInProgress, "", false},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: test.kind, Status: corev1.ConditionTrue, Reason: test.reason}}}}
		if got := ReportsResources(pod); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestStaysWithNode(t *testing.T) {
	for name, test := range map[string]struct {
		kind       string
		controller bool
		mirror     bool
		class      string
		want       bool
	}{
		"a pod without an owner": {},
		"of a ReplicaSet":        {kind: "ReplicaSet", controller: true},
		"of a Deployment that is critical": {kind: "ReplicaSet", controller: true,
			class: "system-cluster-critical"},
		"of a DaemonSet": {kind: "DaemonSet", controller: true, want: true},
		"owned by a DaemonSet that does not control it": {kind: "DaemonSet"},
		"a static pod":                      {kind: "Node", controller: true, mirror: true, want: true},
		"a static pod without an owner":     {mirror: true, want: true},
		"of a Node, without the annotation": {kind: "Node", controller: true, want: true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: test.class}}
		if test.kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: test.kind, Controller: ptr.To(test.controller)}}
		}
		if test.mirror {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""}
		}
		if got := StaysWithNode(pod); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestResourcesAreLeftOut(t *testing.T) {
	const gpu corev1.ResourceName = "example.com/gpu"
	list := func() corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), gpu: resource.MustParse("2")}
	}
	requirements := func() corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: list(), Limits: list()}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Overhead: list(), Resources: ptr.To(requirements()),
		InitContainers: []corev1.Container{{Name: "first", Resources: requirements()}},
		Containers:     []corev1.Container{{Name: "bare"}, {Name: "main", Resources: requirements()}},
	}}
	before := pod.DeepCopy()
	is := func(name corev1.ResourceName) bool { return name == gpu }
	without := WithoutResources(pod, is)
	if !apiequality.Semantic.DeepEqual(before, pod) {
		t.Error("the pod has changed")
	}
	if RequestsAny(without, is) || strings.Contains(without.String(), string(gpu)) {
		t.Errorf("the resource is still there: %v", without)
	}
	if want := before.Spec.Containers[1].Resources.Requests.Cpu(); !want.Equal(*without.Spec.Containers[1].Resources.
		Requests.Cpu()) || len(without.Spec.InitContainers) != 1 || without.Spec.Resources == nil {
		t.Errorf("more than the resource is left out: %v", without)
	}
}
