// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/heap"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Place is where in the queue a pod is.
type Place uint8

const (
	nowhere Place = iota
	// Active pods are popped in the order of the queue sort.
	Active
	// Backoff pods were refused by plugins and wait for their back-off to end, or for Active to be
	// empty.
	Backoff
	// ErrorBackoff pods met an error, which waiting heals if anything does: they are not popped
	// early.
	ErrorBackoff
	// Unschedulable pods wait for an event that helps them.
	Unschedulable
	// Gated pods are kept out by a PreEnqueue plugin.
	Gated
	// InFlight pods are popped and not yet given back or released.
	InFlight

	places
)

var placeNames = [places]string{"Nowhere", "Active", "Backoff", "ErrorBackoff", "Unschedulable", "Gated", "InFlight"}

func (p Place) String() string { return placeNames[p] }

// awaitsEvent reports whether pods in this place wait for an event.
func (p Place) awaitsEvent() bool { return p == Unschedulable || p == Gated }

// poppable says whether Pop may take the pod from there.
func (p Place) poppable() bool { return p == Active || p == Backoff }

// entry is a pod that the queue knows, from Add until Done or Delete. Guarded by Queue.mu.
type entry struct {
	// pod is the newest version that the queue was told of.
	pod *corev1.Pod
	// info is what is popped and given back; info.Pod == pod. nil while the pod is in flight: it is
	// the caller's then.
	info *schedframework.QueuedPodInfo
	// profile that serves the pod, or served it until a reload that has not come to the pod yet;
	// see outdated. While the pod is in flight it is the one that it was popped with.
	profile *profileRules

	place Place
	// index in the slice of its place. Not for InFlight.
	index int
	// until is the end of the back-off, a multiple of backoffWindow. For Backoff and ErrorBackoff.
	until time.Time
	// checked is when the pod was last flushed in vain. For Unschedulable and Gated.
	checked time.Time

	// failures counts the errors of PreEnqueue plugins in a row. Above 0, PreEnqueue is due when
	// the back-off ends.
	failures int
	// failure is the last of these errors.
	failure string
	// missed is the strongest of what would have moved the pod while a plugin gates it, for Ungate.
	// Only for Gated.
	missed strategy

	flight flight
}

// newEntry makes an entry for a pod that the queue does not know yet, with all it consists of in
// one allocation.
func newEntry(pod *corev1.Pod, p *profileRules, now time.Time) *entry {
	b := &struct {
		entry
		queued schedframework.QueuedPodInfo
		info   schedframework.PodInfo
	}{}
	// Malformed affinity terms are reported by the InterPodAffinity plugin, which parses them
	// again.
	_ = b.info.Update(pod)
	b.queued = schedframework.QueuedPodInfo{PodInfo: &b.info, Timestamp: now, UnschedulablePlugins: sets.New[string]()}
	b.entry = entry{pod: pod, info: &b.queued, profile: p}
	return &b.entry
}

// update replaces the pod by a newer version of itself.
func (e *entry) update(pod *corev1.Pod) {
	e.pod = pod
	if e.info != nil {
		_ = e.info.Update(pod) // nothing is parsed, hence nothing fails, as the UID is the same
	}
}

// podHeap is a heap of entries that know their index. The owner of the heap locks.
type podHeap struct {
	entries []*entry
	less    func(a, b *entry) bool
}

var _ heap.Interface = &podHeap{}

func (h *podHeap) Len() int           { return len(h.entries) }
func (h *podHeap) Less(i, j int) bool { return h.less(h.entries[i], h.entries[j]) }
func (h *podHeap) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	h.entries[i].index, h.entries[j].index = i, j
}

func (h *podHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(h.entries)
	h.entries = append(h.entries, e)
}

func (h *podHeap) Pop() any {
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = nil
	h.entries = h.entries[:last]
	return e
}

// first is the head of the heap, nil if there is none.
func (h *podHeap) first() *entry {
	if len(h.entries) == 0 {
		return nil
	}
	return h.entries[0]
}

// podList is an unordered list of entries that know their index. The owner of the list locks.
// Removal puts the last entry in the gap, so that whoever goes through it from the end may remove
// the entry at hand.
type podList struct{ entries []*entry }

func (l *podList) add(e *entry) {
	e.index = len(l.entries)
	l.entries = append(l.entries, e)
}

func (l *podList) remove(e *entry) {
	last := len(l.entries) - 1
	moved := l.entries[last]
	l.entries[e.index] = moved
	moved.index = e.index
	l.entries[last] = nil
	l.entries = l.entries[:last]
}
