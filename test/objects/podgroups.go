// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// PodGroup returns a PodGroup of scheduler-plugins in the namespace default.
func PodGroup(name string, minMember int) *unstructured.Unstructured {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(minMember)}}}
	group.SetGroupVersionKind(podgroup.Kind)
	group.SetNamespace(corev1.NamespaceDefault)
	group.SetName(name)
	return group
}

// MemberOf makes a pod a member of a PodGroup of scheduler-plugins.
func MemberOf(group string) func(*corev1.Pod) { return Labelled(podgroup.Label, group) }

// KubernetesPodGroup returns a PodGroup of Kubernetes in the namespace default. Its policy is gang,
// or basic if minCount is 0. topologyKey is the key of the node label of which all pods need the
// same value; "" means that there is none.
func KubernetesPodGroup(name string, minCount int32, topologyKey string) *schedulingv1beta1.PodGroup {
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	if minCount == 0 {
		group.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{
			Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	}
	if topologyKey != "" {
		group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: topologyKey}},
		}
	}
	return group
}

// InGroup makes a pod a member of a PodGroup of Kubernetes.
func InGroup(group string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group)}
	}
}

// CompositePodGroup returns a CompositePodGroup in the namespace default. Its policy is gang, or
// basic if minGroups is 0. topologyKey is as for KubernetesPodGroup.
func CompositePodGroup(name string, minGroups int32, topologyKey string) *schedulingv1alpha3.CompositePodGroup {
	group := &schedulingv1alpha3.CompositePodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
	}
	group.Spec.WorkloadRef = &schedulingv1alpha3.WorkloadReference{WorkloadName: "workload", TemplateName: "groups"}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: minGroups}
	if minGroups == 0 {
		group.Spec.SchedulingPolicy = schedulingv1alpha3.CompositePodGroupSchedulingPolicy{
			Basic: &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}}
	}
	if topologyKey != "" {
		group.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha3.TopologyConstraint{{Key: topologyKey}},
		}
	}
	return group
}
