// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// CompositeResource is the resource of CompositePodGroups, which are alpha in Kubernetes 1.37.
var CompositeResource = schedulingv1alpha3.SchemeGroupVersion.WithResource("compositepodgroups")

// CompositeKind is their kind.
var CompositeKind = schedulingv1alpha3.SchemeGroupVersion.WithKind("CompositePodGroup")

// CompositeGroup is a group of groups, as its object describes it: enough of its children are
// placed together, or none. Its children are the groups of Kubernetes and the composite groups of
// its namespace that name it as their parent.
type CompositeGroup struct {
	// Key has the source Composite.
	Key
	// Parent is the name of the composite group that this one belongs to, "" if there is none.
	Parent string
	// MinGroups is the number of children that must be placed together, at least 1.
	MinGroups int
	// Topology is how near to each other all pods have to be.
	Topology Topology
	// Priority is the priority of all pods. nil: they have their own.
	Priority *int32
	// PreemptionPolicy is as in Group.
	PreemptionPolicy *corev1.PreemptionPolicy
	// EvictedWhole means that preemption evicts all pods of this group, or none.
	EvictedWhole bool
}

// ReadComposite reads a CompositePodGroup.
func ReadComposite(u *unstructured.Unstructured) (*schedulingv1alpha3.CompositePodGroup, error) {
	var o schedulingv1alpha3.CompositePodGroup
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
		return nil, fmt.Errorf("reading CompositePodGroup %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return &o, nil
}

// FromComposite is FromCompositePodGroup for an object as its informer has it.
func FromComposite(u *unstructured.Unstructured) (CompositeGroup, error) {
	o, err := ReadComposite(u)
	if err != nil {
		return CompositeGroup{}, err
	}
	return FromCompositePodGroup(o), nil
}

// FromCompositePodGroup reads a CompositePodGroup. One child is enough under the basic policy.
func FromCompositePodGroup(o *schedulingv1alpha3.CompositePodGroup) CompositeGroup {
	c := CompositeGroup{
		Key:       CompositeKey(o.Namespace, o.Name),
		Parent:    ptr.Deref(o.Spec.ParentCompositePodGroupName, ""),
		MinGroups: 1,
		Priority:  o.Spec.Priority,
	}
	if mode := o.Spec.DisruptionMode; mode != nil {
		c.EvictedWhole = mode.All != nil
	}
	if policy := o.Spec.PreemptionPolicy; policy != nil {
		c.PreemptionPolicy = new(corev1.PreemptionPolicy(*policy))
	}
	if gang := o.Spec.SchedulingPolicy.Gang; gang != nil {
		c.MinGroups = max(1, int(gang.MinGroupCount))
	}
	if constraints := o.Spec.SchedulingConstraints; constraints != nil && len(constraints.Topology) > 0 {
		c.Topology.Required = constraints.Topology[0].Key // the API server allows one
	}
	return c
}

// CompositeKey returns the key of a composite group.
func CompositeKey(namespace, name string) Key {
	return Key{Source: Composite, Namespace: namespace, Name: name}
}
