// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LoadSampleList has the load of a replica over the last hours: what it decided,
// and how many pods were pending. livesched keeps the samples in memory. The API
// server does not have this kind.
//
// +kubebuilder:object:root=true
type LoadSampleList struct {
	metav1.TypeMeta `json:",inline"`

	// items are the samples, the oldest first.
	Items []LoadSample `json:"items"`

	// reloads are the changes of active profiles in the time of the samples, the oldest
	// first.
	// +optional
	Reloads []ProfileReload `json:"reloads,omitempty"`

	// replica names the replica, by its pod, and leading reports whether it is the
	// leader now.
	// +optional
	Replica string `json:"replica,omitempty"`
	Leading bool   `json:"leading"`

	// started is when the replica was started, and version its version.
	Started metav1.Time `json:"started,omitzero"`
	Version string      `json:"version"`

	// nodes is the number of nodes, and pods the number of pods on them.
	Nodes int32 `json:"nodes"`
	Pods  int32 `json:"pods"`
}

// LoadSample is the load in the time since the sample before it.
type LoadSample struct {
	// time is the end of that time, and seconds its length.
	Time    metav1.Time `json:"time"`
	Seconds float64     `json:"seconds"`

	// bound, unschedulable and failed are the numbers of attempts, by their result.
	Bound         int32 `json:"bound"`
	Unschedulable int32 `json:"unschedulable"`
	Failed        int32 `json:"failed"`

	// p50 and p99 are quantiles of the duration of an attempt that placed a pod, from
	// the beginning of the scheduling cycle to the end of the binding. They are unset
	// if there was none.
	// +optional
	P50 *metav1.Duration `json:"p50,omitempty"`
	// +optional
	P99 *metav1.Duration `json:"p99,omitempty"`

	// active, backoff, unschedulablePods and gated are the numbers of pending pods in
	// each part of the queue at the end, as in a QueueList.
	Active            int32 `json:"active"`
	Backoff           int32 `json:"backoff"`
	UnschedulablePods int32 `json:"unschedulablePods"`
	Gated             int32 `json:"gated"`
}

// ProfileReload is a change of an active profile.
type ProfileReload struct {
	// time is when livesched noticed it.
	Time metav1.Time `json:"time"`

	// profile is the name of the SchedulerProfile, and revision the revision that is
	// active since then. It is unset if none is.
	Profile string `json:"profile"`
	// +optional
	Revision string `json:"revision,omitempty"`
}
