// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PendingKindList has the pending pods of the leader, with those that are alike
// as one item. An answer may be 3 seconds old, or up to 30 if it takes long to
// count. The API server does not have this kind.
//
// +kubebuilder:object:root=true
type PendingKindList struct {
	metav1.TypeMeta `json:",inline"`

	// items are the kinds, with the most pods first. Of equally many, the one that
	// waits longest comes first.
	Items []PendingKind `json:"items"`

	// kinds and pods are the numbers of all kinds and pods that the request is about,
	// also of kinds beyond its limit.
	Kinds int32 `json:"kinds"`
	Pods  int32 `json:"pods"`

	// time is when the pods were counted.
	Time metav1.Time `json:"time,omitzero"`
}

// PendingKind is a number of pending pods of one controller, or of one PodGroup,
// with the same requests and constraints. Pods that are being decided count, and
// pods that are being bound do not.
type PendingKind struct {
	// namespace is the namespace of the pods, and pod the name of one of them, the
	// first by name.
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`

	// id names the kind in requests for its pods, which have the parameter id. It is
	// the same in all answers of a version of livesched.
	ID string `json:"id"`

	// owner is the controller of the pods, such as job/train, or deployment/web for
	// the pods of its ReplicaSets. It is unset if they have none.
	// +optional
	Owner string `json:"owner,omitempty"`

	// podGroup is the name of their PodGroup. It is unset if they have none.
	// +optional
	PodGroup string `json:"podGroup,omitempty"`

	// profile is the name of the SchedulerProfile, and schedulerName the
	// spec.schedulerName of the pods.
	Profile       string `json:"profile"`
	SchedulerName string `json:"schedulerName"`

	// pods is the number of pods. active, backoff, unschedulable and gated are those
	// in each part of the queue, as in a QueueList; the others are being decided.
	Pods int32 `json:"pods"`
	// +optional
	Active int32 `json:"active,omitempty"`
	// +optional
	Backoff int32 `json:"backoff,omitempty"`
	// +optional
	Unschedulable int32 `json:"unschedulable,omitempty"`
	// +optional
	Gated int32 `json:"gated,omitempty"`

	// since is when the oldest of the pods was created.
	Since metav1.Time `json:"since,omitzero"`

	// requests is what one of the pods requests.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// priority is the priority of the pods.
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// attempts is the highest number of attempts of the pods.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// result and message are those of the latest decision about the pod. They are
	// unset if there is none, or if livesched does not have it any more.
	// +optional
	Result DecisionResult `json:"result,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`

	// pending are the pods, with the one that waits longest first, up to the limit of
	// the request. It is set if the request names the kind.
	// +optional
	Pending []PendingPod `json:"pending,omitempty"`
}

// PendingPod is one pod of a PendingKind.
type PendingPod struct {
	// name is the name of the pod.
	Name string `json:"name"`

	// since is when the pod was created.
	Since metav1.Time `json:"since,omitzero"`

	// place is where the pod is in the scheduling queue: Active, Backoff,
	// ErrorBackoff, Unschedulable, Gated or InFlight.
	Place string `json:"place"`

	// attempts is how often this replica has tried to schedule the pod. It is unset
	// while the pod is in flight.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// nominatedNode is the node on which pods are preempted for this pod.
	// +optional
	NominatedNode string `json:"nominatedNode,omitempty"`
}
