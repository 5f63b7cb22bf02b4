// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PodState is what the queue knows of a pod, for debugging and tests. While Reconfigure runs, it
// may be what was known before.
type PodState struct {
	// Pod is the newest version that the queue was told of.
	Pod   *corev1.Pod
	Place Place

	// The fields below are those of a waiting pod; a pod in flight belongs to its cycle.

	// Timestamp is when the pod was queued or given back.
	Timestamp time.Time
	Attempts  int
	// UnschedulablePlugins and PendingPlugins refused the pod, sorted by name.
	UnschedulablePlugins, PendingPlugins []string
	// GatingPlugin is the one that keeps the pod out of Active.
	GatingPlugin string
	// Error is that of a PreEnqueue plugin, which is asked again when the back-off ends.
	Error string
	// BackoffEnd is set for Backoff and ErrorBackoff.
	BackoffEnd time.Time
}

// Counts is how many pods are where, and how many events are kept for those in flight.
type Counts struct {
	Active, Backoff, ErrorBackoff, Unschedulable, Gated, InFlight int
	InFlightEvents                                                int
}

// Counts counts pods.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := Counts{
		Active:         q.active.Len(),
		Backoff:        q.backoff.Len(),
		ErrorBackoff:   q.errorBackoff.Len(),
		InFlight:       q.inFlight.pods,
		InFlightEvents: q.inFlight.len(),
	}
	for _, e := range q.unschedulable.entries {
		if e.place == Gated {
			c.Gated++
		} else {
			c.Unschedulable++
		}
	}
	return c
}

// ActivePods is how many pods wait for nothing but their turn.
func (q *Queue) ActivePods() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.active.Len()
}

// PendingPods lists all pods that the queue knows: place by place, those of Active and Backoff in
// the order in which they would be popped, the others by their back-off or age.
func (q *Queue) PendingPods() []PodState {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := make([]*entry, 0, len(q.pods))
	for _, e := range q.pods {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, q.compareLocked)
	states := make([]PodState, len(entries))
	for i, e := range entries {
		states[i] = e.state()
	}
	return states
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

// Has says whether the queue knows the pod: it waits or is in flight.
func (q *Queue) Has(uid types.UID) bool {
	_, known := q.Get(uid)
	return known
}

// compareLocked is the order of PendingPods.
func (q *Queue) compareLocked(a, b *entry) int {
	if c := cmp.Compare(a.place, b.place); c != 0 {
		return c
	}
	before := func(a, b *entry) bool { return a.flight.since < b.flight.since }
	switch a.place {
	case Active:
		before = q.lessLocked
	case Backoff:
		before = q.lessBackoffLocked
	case ErrorBackoff:
		before = q.lessErrorBackoffLocked
	case Unschedulable, Gated:
		before = func(a, b *entry) bool { return a.info.Timestamp.Before(b.info.Timestamp) }
	}
	switch {
	case before(a, b):
		return -1
	case before(b, a):
		return 1
	}
	return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name),
		cmp.Compare(a.pod.UID, b.pod.UID))
}

func (e *entry) state() PodState {
	s := PodState{Pod: e.pod, Place: e.place, Error: e.failure}
	if e.info == nil {
		return s
	}
	s.Timestamp, s.Attempts, s.GatingPlugin = e.info.Timestamp, e.info.Attempts, e.info.GatingPlugin
	s.UnschedulablePlugins = sets.List(e.info.UnschedulablePlugins)
	s.PendingPlugins = sets.List(e.info.PendingPlugins)
	if e.place == Backoff || e.place == ErrorBackoff {
		s.BackoffEnd = e.until
	}
	return s
}

// Nominator returns the nominator. It is owned by the queue and shared by all profiles. The queue
// itself offers the same methods.
func (q *Queue) Nominator() *Nominator { return q.nominator }

// AddNominatedPod implements fwk.PodNominator.
func (q *Queue) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, nominating *fwk.NominatingInfo) {
	q.nominator.AddNominatedPod(logger, pod, nominating)
}

// UpdateNominatedPod implements fwk.PodNominator.
func (q *Queue) UpdateNominatedPod(logger klog.Logger, oldPod *corev1.Pod, newPod fwk.PodInfo) {
	q.nominator.UpdateNominatedPod(logger, oldPod, newPod)
}

// DeleteNominatedPodIfExists implements fwk.PodNominator.
func (q *Queue) DeleteNominatedPodIfExists(pod *corev1.Pod) {
	q.nominator.DeleteNominatedPodIfExists(pod)
}

// NominatedNodes is [Nominator.NominatedNodes].
func (q *Queue) NominatedNodes(pod *corev1.Pod) (nodes map[string]uint64, repelling bool) {
	return q.nominator.NominatedNodes(pod)
}

// NominatedPodsForNode implements fwk.PodNominator.
func (q *Queue) NominatedPodsForNode(nodeName string) []fwk.PodInfo {
	return q.nominator.NominatedPodsForNode(nodeName)
}
