// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// KubernetesAPI is a version of Kubernetes' API of PodGroups. livesched reads all of them as the
// types of v1beta1.
type KubernetesAPI struct {
	schema.GroupVersionResource
	// Condition is the type of the condition that says whether a group has been scheduled.
	Condition string
}

// Kind returns the kind of the PodGroups.
func (a *KubernetesAPI) Kind() schema.GroupVersionKind { return a.GroupVersion().WithKind("PodGroup") }

// KubernetesAPIs are the versions that livesched reads: v1beta1 of Kubernetes 1.37, v1, which has
// the same fields, and v1alpha2 of Kubernetes 1.36.
var KubernetesAPIs = []KubernetesAPI{
	{podGroupsOf("v1"), schedulingv1beta1.PodGroupInitiallyScheduled},
	{podGroupsOf("v1beta1"), schedulingv1beta1.PodGroupInitiallyScheduled},
	{podGroupsOf("v1alpha2"), "PodGroupScheduled"},
}

func podGroupsOf(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: schedulingv1beta1.GroupName, Version: version, Resource: "podgroups"}
}

// v1alpha2 is the API version of Kubernetes 1.36.
const v1alpha2 = schedulingv1beta1.GroupName + "/v1alpha2"

// IsKubernetesKind reports whether a kind is a PodGroup of Kubernetes that livesched reads.
func IsKubernetesKind(kind schema.GroupVersionKind) bool {
	for i := range KubernetesAPIs {
		if KubernetesAPIs[i].Kind() == kind {
			return true
		}
	}
	return false
}

// ReadKubernetes reads a PodGroup of one of the KubernetesAPIs.
func ReadKubernetes(u *unstructured.Unstructured) (*schedulingv1beta1.PodGroup, error) {
	object, err := InV1beta1(u.Object)
	if err == nil {
		var group schedulingv1beta1.PodGroup
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(object, &group); err == nil {
			return &group, nil
		}
	}
	return nil, fmt.Errorf("reading PodGroup %s/%s: %w", u.GetNamespace(), u.GetName(), err)
}

// InV1beta1 returns a PodGroup of one of the KubernetesAPIs with the fields of v1beta1. v1alpha2
// has a string for the disruption mode, and another name for the reference to its Workload, which
// livesched does not read.
func InV1beta1(object map[string]any) (map[string]any, error) {
	spec, _ := object["spec"].(map[string]any)
	if mode, ok := spec["disruptionMode"].(map[string]any); ok {
		_, single := mode["single"]
		if _, all := mode["all"]; single == all {
			return nil, errors.New("spec.disruptionMode must have one of the fields single and all")
		}
	}
	if object["apiVersion"] != v1alpha2 || spec == nil {
		return object, nil
	}
	object, spec = maps.Clone(object), maps.Clone(spec)
	object["spec"] = spec
	delete(spec, "podGroupTemplateRef")
	switch mode := spec["disruptionMode"]; mode {
	case nil:
	case "Pod":
		spec["disruptionMode"] = map[string]any{"single": map[string]any{}}
	case "PodGroup":
		spec["disruptionMode"] = map[string]any{"all": map[string]any{}}
	default:
		return nil, fmt.Errorf("spec.disruptionMode: %q is neither Pod nor PodGroup", mode)
	}
	return object, nil
}

// KubernetesInformers are the informers of the KubernetesAPIs, in this order. Their objects are
// unstructured. Informers of versions that the API server does not serve are empty.
type KubernetesInformers []toolscache.SharedIndexInformer

// Get returns a PodGroup and its version, nil if there is none.
func (k KubernetesInformers) Get(namespace, name string) (*unstructured.Unstructured, *KubernetesAPI) {
	for i, informer := range k {
		if object, ok, err := informer.GetIndexer().GetByKey(namespace + "/" + name); ok && err == nil {
			return object.(*unstructured.Unstructured), &KubernetesAPIs[i]
		}
	}
	return nil, nil
}

// FromKubernetes reads a PodGroup of one of the KubernetesAPIs.
func FromKubernetes(u *unstructured.Unstructured) (Group, error) {
	o, err := ReadKubernetes(u)
	if err != nil {
		return Group{}, err
	}
	g := FromPodGroup(o)
	g.APIVersion = u.GetAPIVersion()
	return g, nil
}

// FromPodGroup reads a PodGroup of Kubernetes. Pods under the basic policy are scheduled one by
// one, unless they have to be near to each other.
func FromPodGroup(o *schedulingv1beta1.PodGroup) Group {
	g := Group{Key: KeyOfPodGroup(o), MinMember: 1, Priority: o.Spec.Priority, Claims: claimsOf(o)}
	if gang := o.Spec.SchedulingPolicy.Gang; gang != nil {
		g.MinMember = max(1, int(gang.MinCount))
	}
	if constraints := o.Spec.SchedulingConstraints; constraints != nil && len(constraints.Topology) > 0 {
		g.Topology.Required = constraints.Topology[0].Key // the API server allows one
	}
	if mode := o.Spec.DisruptionMode; mode != nil {
		g.EvictedWhole = mode.All != nil
	}
	if policy := o.Spec.PreemptionPolicy; policy != nil {
		g.PreemptionPolicy = new(corev1.PreemptionPolicy(*policy))
	}
	for i := range KubernetesAPIs {
		g.Begun = g.Begun || meta.IsStatusConditionTrue(o.Status.Conditions, KubernetesAPIs[i].Condition)
	}
	g.OneByOne = o.Spec.SchedulingPolicy.Gang == nil && g.Topology.Required == ""
	g.Parent = ptr.Deref(o.Spec.ParentCompositePodGroupName, "")
	return g
}

// KeyOfPodGroup returns the key of the group that a PodGroup of Kubernetes describes.
func KeyOfPodGroup(o *schedulingv1beta1.PodGroup) Key {
	return Key{Source: Kubernetes, Namespace: o.Namespace, Name: o.Name}
}
