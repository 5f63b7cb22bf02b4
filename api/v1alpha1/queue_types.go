// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueList has the number of pending pods of each profile, as the leader counts
// them. livesched computes a QueueList for each request, at a cost that does not
// depend on the number of pods. The API server does not have this kind.
//
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`

	// items are the queues of the active profiles, by scheduler name.
	Items []Queue `json:"items"`
}

// Queue has the number of pending pods of one profile. It counts no pods that
// are being decided or bound, and none that are bound.
type Queue struct {
	// profile is the name of the SchedulerProfile.
	Profile string `json:"profile"`

	// schedulerName is the spec.schedulerName of its pods.
	SchedulerName string `json:"schedulerName"`

	// active pods are tried as soon as those before them have been.
	Active int32 `json:"active"`

	// backoff pods wait a while after a failed attempt.
	Backoff int32 `json:"backoff"`

	// unschedulable pods fit no node, and wait for an event that may help them.
	Unschedulable int32 `json:"unschedulable"`

	// gated pods are not admitted to the queue yet: by their scheduling gates, by a
	// PreEnqueue plugin, or because their group is incomplete.
	Gated int32 `json:"gated"`
}
