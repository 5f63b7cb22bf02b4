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
		InFlight:       q.inFlight.pods,
		InFlightEvents: q.inFlight.len(),
	}
	c.Gated = q.unschedulable.gated()
	c.Unschedulable = len(q.unschedulable.entries) - c.Gated
	return c
}

// ActivePods returns the number of Active pods.
func (q *Queue) ActivePods() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.active.Len()
}

// PendingPods lists all pods in the queue: place by place, those of Active and Backoff in the order
// in which they would be popped, the others by their back-off or age.
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

// Has reports whether the pod is in the queue, waiting or in flight.
func (q *Queue) Has(uid types.UID) bool {
	_, known := q.Get(uid)
	return known
}

// compareLocked compares entries in the order of PendingPods.
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
	s.GatingMessage = e.refusal
	s.UnschedulablePlugins = sets.List(e.info.UnschedulablePlugins)
	s.PendingPlugins = sets.List(e.info.PendingPlugins)
	if e.place == Backoff || e.place == ErrorBackoff {
		s.BackoffEnd = e.until
	}
	return s
}

// Nominator returns the nominator, which belongs to the queue and serves all profiles. The queue
// has the same methods.
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
