// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// PodGroup returns a PodGroup in the namespace default.
func PodGroup(name string, minMember int) *unstructured.Unstructured {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(minMember)}}}
	group.SetGroupVersionKind(podgroup.Kind)
	group.SetNamespace(corev1.NamespaceDefault)
	group.SetName(name)
	return group
}

// MemberOf makes a pod a member of a PodGroup.
func MemberOf(group string) func(*corev1.Pod) { return Labelled(podgroup.Label, group) }
