// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
)

// FromPodGroup reads a PodGroup of Kubernetes. Pods under the basic policy are scheduled one by
// one, unless they have to be near to each other.
func FromPodGroup(o *schedulingv1alpha2.PodGroup) Group {
	g := Group{Key: KeyOfPodGroup(o), MinMember: 1, Priority: o.Spec.Priority}
	if gang := o.Spec.SchedulingPolicy.Gang; gang != nil {
		g.MinMember = max(1, int(gang.MinCount))
	}
	if constraints := o.Spec.SchedulingConstraints; constraints != nil && len(constraints.Topology) > 0 {
		g.Topology.Required = constraints.Topology[0].Key // the API server allows one
	}
	if mode := o.Spec.DisruptionMode; mode != nil {
		g.EvictedWhole = *mode == schedulingv1alpha2.DisruptionModePodGroup
	}
	g.Begun = meta.IsStatusConditionTrue(o.Status.Conditions, schedulingv1alpha2.PodGroupScheduled)
	g.OneByOne = o.Spec.SchedulingPolicy.Gang == nil && g.Topology.Required == ""
	return g
}

// KeyOfPodGroup returns the key of the group that a PodGroup of Kubernetes describes.
func KeyOfPodGroup(o *schedulingv1alpha2.PodGroup) Key {
	return Key{Source: Kubernetes, Namespace: o.Namespace, Name: o.Name}
}
