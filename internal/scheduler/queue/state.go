// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// PodState is the state of a pod in the queue, for debugging and tests. While Reconfigure runs, it
// may still be the state from before the reload.
type PodState struct {
	// Pod is the newest version that the queue received.
	Pod   *corev1.Pod
	Place Place

	// The fields below are set for waiting pods only; a pod in flight belongs to its cycle.

	// Timestamp is when the pod was last queued or requeued.
	Timestamp time.Time
	Attempts  int
	// UnschedulablePlugins and PendingPlugins are the plugins that refused the pod, sorted by name.
	UnschedulablePlugins, PendingPlugins []string
	// GatingPlugin is the PreEnqueue plugin that refused the pod.
	GatingPlugin string
	// GatingMessage is the message of that plugin.
	GatingMessage string
	// Error is the error of a PreEnqueue plugin, which runs again when the back-off ends.
	Error string
	// BackoffEnd is set for Backoff and ErrorBackoff.
	BackoffEnd time.Time
}

// Counts holds the number of pods in each place, and of the events kept for pods in flight.
type Counts struct {
	Active, Backoff, ErrorBackoff, Unschedulable, Gated, InFlight int
	InFlightEvents                                                int
}

// Counts returns the number of pods in each place.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := Counts{
		Active:         q.active.Len(),
		Backoff:        q.backoff.Len(),
		ErrorBackoff:   q.errorBackoff.Len(),
		InFlight:       q.inFlight.pods.Len(),
		InFlightEvents: q.inFlight.len(),
	}
	c.Gated = q.unschedulable.gated()
	c.Unschedulable = len(q.unschedulable.entries) - c.Gated
	return c
}

// Get returns the state of one pod.
func (q *Queue) Get(uid types.UID) (PodState, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.pods[uid]
	if e == nil {
		return PodState{}, false
	}
	return e.state(), true
}

// Has reports whether the pod is in the queue, waiting or in flight.
func (q *Queue) Has(uid types.UID) bool {
	_, known := q.Get(uid)
	return known
}

func (e *entry) state() PodState {
	s := PodState{Pod: e.pod, Place: e.place, Error: e.failure}
	if e.info == nil {
		return s
	}
	s.Timestamp, s.Attempts, s.GatingPlugin = e.info.Timestamp, e.info.Attempts, e.info.GatingPlugin
	s.GatingMessage = e.refusal
	s.UnschedulablePlugins = sets.List(e.info.UnschedulablePlugins)
	s.PendingPlugins = sets.List(e.info.PendingPlugins)
	if e.place == Backoff || e.place == ErrorBackoff {
		s.BackoffEnd = e.until
	}
	return s
}

// Nominator returns the nominator, which belongs to the queue and serves all profiles.
func (q *Queue) Nominator() *Nominator { return q.nominator }
