// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeAllocationList has the room of all nodes, as livesched counts it: with pods
// that are being bound. An answer may be 5 seconds old, or up to 30 if it takes
// long to count. You need the permission to list nodes as well. The API server
// does not have this kind.
//
// +kubebuilder:object:root=true
type NodeAllocationList struct {
	metav1.TypeMeta `json:",inline"`

	// items are the nodes, by name.
	Items []NodeAllocation `json:"items"`

	// time is when the pods were counted.
	Time metav1.Time `json:"time,omitzero"`
}

// NodeAllocation is the room of one node.
type NodeAllocation struct {
	// name is the name of the node.
	Name string `json:"name"`

	// pool is the node pool, by the label of the provider, or else by the role or the
	// instance type of the node. It is "-" for a node with none of these labels.
	Pool string `json:"pool"`

	// zone is the zone of the node.
	// +optional
	Zone string `json:"zone,omitempty"`

	// cordoned reports whether the node is marked unschedulable, and notReady whether
	// its condition Ready is not True.
	// +optional
	Cordoned bool `json:"cordoned,omitempty"`
	// +optional
	NotReady bool `json:"notReady,omitempty"`

	// taints are the taints of the node that keep pods away, such as
	// dedicated=gpu:NoSchedule.
	// +optional
	Taints []string `json:"taints,omitempty"`

	// allocatable is what the node has for pods, and requested what the pods on it
	// request, also those that are being bound. A resource of which there is none is
	// left out.
	Allocatable corev1.ResourceList `json:"allocatable"`
	Requested   corev1.ResourceList `json:"requested"`

	// refusal is a word for why the pod of the request does not fit on the node: the
	// reason of the first plugin that refuses it. It is unset if the pod fits, or if
	// the request names none.
	// +optional
	Refusal RefusalReason `json:"refusal,omitempty"`
}
