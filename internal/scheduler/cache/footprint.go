// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// This file decides what counts as a change of a pod. An update without a change replaces the old
// object without an entry in the change log: everything computed from the node stays valid.

// likeness describes which results computed from an older object of a pod are valid for a newer
// one.
type likeness uint8

const (
	// unlike: nothing, as for another pod.
	unlike likeness = iota
	// ofSameClass: everything, except what depends on labels that are set when a pod is bound.
	// Classes do not depend on them.
	ofSameClass
	// same: everything. The newer object replaces the older without an entry in the change log.
	same
)

// SetByBinding reports whether the API server copies a label from the node to a pod when it binds
// the pod (KEP-4742, the admission plugin PodTopologyLabels). An assumed pod may get another value
// of the label when it is confirmed, and keeps its class.
func SetByBinding(label string) bool {
	return label == corev1.LabelTopologyZone || label == corev1.LabelTopologyRegion
}

// likenessOf compares two objects of an assigned pod in everything that matters to pending pods and
// to the sums of its node, except for the resources.
func likenessOf(a, b *corev1.Pod) likeness {
	switch {
	case !podfields.SameForOthers(a, b):
		return unlike
	case maps.Equal(a.Labels, b.Labels):
		return same
	case hasAllButSetByBinding(a.Labels, b.Labels) && hasAllButSetByBinding(b.Labels, a.Labels):
		return ofSameClass
	}
	return unlike
}

// hasAllButSetByBinding reports whether b has all labels of a, except those that binding sets.
func hasAllButSetByBinding(a, b map[string]string) bool {
	for label, value := range a {
		if other, ok := b[label]; (!ok || other != value) && !SetByBinding(label) {
			return false
		}
	}
	return true
}

// sameResources reports whether two pods add the same to the sums of a node.
func sameResources(a, b fwk.PodResource) bool {
	return a.Non0CPU == b.Non0CPU && a.Non0Mem == b.Non0Mem &&
		a.Resource.GetMilliCPU() == b.Resource.GetMilliCPU() &&
		a.Resource.GetMemory() == b.Resource.GetMemory() &&
		a.Resource.GetEphemeralStorage() == b.Resource.GetEphemeralStorage() &&
		maps.Equal(a.Resource.GetScalarResources(), b.Resource.GetScalarResources())
}
