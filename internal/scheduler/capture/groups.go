// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"strings"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// VersionKey returns the key of a kind in ResourceVersions.
func VersionKey(kind schema.GroupVersionKind) string {
	if kind.Kind == podgroup.Kind.Kind {
		return kind.GroupKind().String()
	}
	return kind.Kind
}

// Served reports whether the API server served objects of one of the Kinds.
func (h *Header) Served(kind schema.GroupVersionKind) bool {
	return h.ResourceVersions[VersionKey(kind)] != ""
}

// trimPodGroup leaves out the conditions, which are messages for users.
func trimPodGroup(in *schedulingv1beta1.PodGroup) *schedulingv1beta1.PodGroup {
	out := &schedulingv1beta1.PodGroup{ObjectMeta: unlabelled(&in.ObjectMeta)}
	out.Spec = schedulingv1beta1.PodGroupSpec{
		SchedulingPolicy: in.Spec.SchedulingPolicy, SchedulingConstraints: in.Spec.SchedulingConstraints,
		ResourceClaims: in.Spec.ResourceClaims,
		DisruptionMode: in.Spec.DisruptionMode, Priority: in.Spec.Priority, PreemptionPolicy: in.Spec.PreemptionPolicy,
		ParentCompositePodGroupName: in.Spec.ParentCompositePodGroupName,
	}
	out.Status.ResourceClaimStatuses = in.Status.ResourceClaimStatuses
	return out
}

// trimComposite leaves out the template and the conditions.
func trimComposite(in *schedulingv1alpha3.CompositePodGroup) *schedulingv1alpha3.CompositePodGroup {
	out := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: unlabelled(&in.ObjectMeta), Spec: in.Spec}
	out.Spec.WorkloadRef, out.Spec.PriorityClassName = nil, ""
	return out
}

// recordOfGroup returns the record of a PodGroup or a CompositePodGroup. ok is false for one that
// the scheduler cannot read either.
func recordOfGroup(in *unstructured.Unstructured) (r Record, ok bool) {
	if in.GroupVersionKind() == podgroup.CompositeKind {
		group, err := podgroup.ReadComposite(in)
		if err != nil {
			return r, false
		}
		r.CompositePodGroup = trimComposite(group)
		return r, true
	}
	if podgroup.IsKubernetesKind(in.GroupVersionKind()) {
		group, err := podgroup.ReadKubernetes(in)
		if err != nil {
			return r, false
		}
		r.PodGroup = trimPodGroup(group)
		return r, true
	}
	r.SchedulerPluginsPodGroup = trimUnstructured(in)
	return r, r.SchedulerPluginsPodGroup != nil
}

// trimUnstructured returns a PodGroup of scheduler-plugins, nil if the scheduler cannot read it
// either.
func trimUnstructured(in *unstructured.Unstructured) *podgroup.Object {
	if in.GroupVersionKind() != podgroup.Kind {
		return nil
	}
	out, err := podgroup.ReadObject(in)
	if err != nil {
		return nil
	}
	out.ObjectMeta = unlabelled(&out.ObjectMeta, podgroup.AnnotationRequired, podgroup.AnnotationPreferred,
		podgroup.AnnotationDisruptionMode)
	return out
}

// correctTopology sets the annotations of PodGroups that name keys of labels.
func (r *redactor) correctTopology(in, out map[string]string) {
	if value := in[podgroup.AnnotationRequired]; value != "" {
		out[podgroup.AnnotationRequired] = r.topologyKey(value)
	}
	if value := in[podgroup.AnnotationPreferred]; value != "" {
		keys := strings.Split(value, ",")
		for i, key := range keys {
			keys[i] = r.topologyKey(strings.TrimSpace(key))
		}
		out[podgroup.AnnotationPreferred] = strings.Join(keys, ",")
	}
}

// topologyKey returns what stands for the key of a label of nodes. What stands for an invalid one,
// for which a PodGroup is refused, is invalid, too.
func (r *redactor) topologyKey(key string) string {
	if podgroup.CheckKeys(key) != nil {
		return "?"
	}
	return r.of(key)
}
