// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects builds the API objects that tests create. It does not use an API server.
package objects

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Profile returns a SchedulerProfile with a spec in YAML. It panics if the spec has unknown fields.
func Profile(name, spec string) *v1alpha1.SchedulerProfile {
	p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	mustDecode(spec, &p.Spec)
	return p
}

// Policy returns a SchedulingPolicy with a spec in YAML. It panics if the spec has unknown fields.
func Policy(name, spec string) *v1alpha1.SchedulingPolicy {
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	mustDecode(spec, &p.Spec)
	return p
}

func mustDecode(text string, into any) {
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		panic(fmt.Sprintf("%v in:\n%s", err, text))
	}
}

// Node returns a node with the given resources and room for 110 pods.
func Node(name, cpu, memory string, labels map[string]string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	all := map[string]string{corev1.LabelHostname: name}
	maps.Copy(all, labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// Pod returns a pod with a scheduler name and resource requests.
func Pod(namespace, name, schedulerName, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName,
			Containers:    []corev1.Container{{Name: "main", Image: Image, Resources: Requests(cpu, memory)}},
		},
	}
}

// Image is the image of all pods. No container runs.
const Image = "registry.example/pause:1"

// Requests returns the requests of a container.
func Requests(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

// PriorityClass returns a priority class.
func PriorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

// Names returns n numbered names of pods or nodes.
func Names(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d", prefix, i))
	}
	return all
}
