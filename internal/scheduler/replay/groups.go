// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// groupsOf returns the pod groups of a snapshot.
func groupsOf(s *capture.Snapshot) *podgroup.Registry {
	groups := podgroup.NewRegistry()
	// A header does not tell the versions of an API group apart.
	for source, served := range map[podgroup.Source]bool{
		podgroup.SchedulerPlugins: s.Header.Served(podgroup.Kind),
		podgroup.Kubernetes:       s.Header.Served(podgroup.KubernetesAPIs[0].Kind()),
		podgroup.Composite:        s.Header.Served(podgroup.CompositeKind),
	} {
		groups.SetServed(source, func() bool { return served }, nil)
	}
	for _, group := range s.PodGroups {
		groups.SetGroup(group.Group())
	}
	for _, object := range s.Objects {
		switch group := object.(type) {
		case *schedulingv1beta1.PodGroup:
			groups.SetGroup(podgroup.FromPodGroup(group))
		case *schedulingv1alpha3.CompositePodGroup:
			groups.SetComposite(podgroup.FromCompositePodGroup(group))
		}
	}
	for _, pod := range s.Pods {
		groups.SetAssigned(pod)
	}
	return groups
}

// Group returns the group that a pending pod is placed with: see explain.GroupOf. Pods with
// scheduling gates are not ready.
func (s *State) Group(pod *corev1.Pod) *fork.Group {
	key := podgroup.KeyOf(pod)
	if !s.groups.Applies(key) {
		return nil
	}
	return explain.GroupOf(s.groups, key, pod.Spec.SchedulerName, s.snapshot.Pending,
		func(p *corev1.Pod) bool { return len(p.Spec.SchedulingGates) == 0 })
}
