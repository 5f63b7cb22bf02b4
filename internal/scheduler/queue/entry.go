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

// Place is the part of the queue that a pod is in.
type Place uint8

const (
	nowhere Place = iota
	// Active pods are ready to be popped, in the order of the queue sort.
	Active
	// Backoff pods were refused by plugins and wait for their back-off to end, or for Active to be
	// empty.
	Backoff
	// ErrorBackoff pods met an error. Waiting gives it time to pass, so they are not popped before
	// their back-off ends.
	ErrorBackoff
	// Unschedulable pods were refused by plugins and wait for an event that may help them.
	Unschedulable
	// Gated pods were refused by a PreEnqueue plugin.
	Gated
	// InFlight pods were popped and neither requeued nor released yet.
	InFlight

	places
)

var placeNames = [places]string{"Nowhere", "Active", "Backoff", "ErrorBackoff", "Unschedulable", "Gated", "InFlight"}

func (p Place) String() string { return placeNames[p] }

// awaitsEvent reports whether pods in this place wait for an event.
func (p Place) awaitsEvent() bool { return p == Unschedulable || p == Gated }

// poppable reports whether Pop may take pods from this place.
func (p Place) poppable() bool { return p == Active || p == Backoff }

// entry is a pod in the queue, from Add until Done or Delete. Queue.mu guards it.
type entry struct {
	// pod is the newest version that the queue received.
	pod *corev1.Pod
	// info is the value that Pop returns and Requeue takes back; info.Pod == pod. It is nil while
	// the pod is in flight, since the caller of Pop owns it then.
	info *schedframework.QueuedPodInfo
	// profile holds the rules of the pod's profile. They may be replaced ones until a running
	// reload reaches the pod; see outdated. While the pod is in flight, they are those in force
	// when it was popped.
	profile *profileRules

	place Place
	// index is the entry's position in the slice of its place. Unused for InFlight.
	index int
	// until is the end of the back-off, a multiple of backoffWindow. Used for Backoff and
	// ErrorBackoff.
	until time.Time
	// hintGroup holds the entry at indexInHintGroup, and arrival numbers the pods in the order in
	// which they came to wait. Used for Unschedulable and Gated.
	hintGroup        *hintGroup
	indexInHintGroup int
	arrival          uint64
	// checked is when the pod was last flushed without leaving. Used for Unschedulable and Gated.
	checked time.Time

	// failures counts consecutive errors of PreEnqueue plugins. If it is not 0, the plugins run
	// again when the back-off ends.
	failures int
	// failure is the last of these errors.
	failure string
	// refusal is the message of the PreEnqueue plugin that gates the pod. Used for Gated.
	refusal string
	// missed is the strongest strategy that an event called for while the pod was gated. Ungate
	// applies it. Used for Gated.
	missed strategy

	assigned assignment
	member   membership
	flight   flight
	hold     hold
}

// newEntry returns an entry for a new pod, without its profile.
func newEntry(pod *corev1.Pod, now time.Time) *entry {
	b := &struct {
		entry
		queued schedframework.QueuedPodInfo
	}{}
	// Malformed affinity terms are reported by the InterPodAffinity plugin, which parses them
	// again.
	info, _ := schedframework.NewPodInfo(pod)
	b.queued = schedframework.QueuedPodInfo{PodInfo: info, QueueingParams: schedframework.QueueingParams{
		Timestamp: now, UnschedulablePlugins: sets.New[string]()}}
	b.entry = entry{pod: pod, info: &b.queued}
	return &b.entry
}

// update replaces the pod by a newer version of itself.
func (e *entry) update(pod *corev1.Pod) {
	e.pod = pod
	if e.info != nil {
		_, _ = e.info.Update(pod) // cannot fail: terms are not parsed again for the same UID
	}
}

// podHeap is a heap of entries, each of which has its index. It has no lock: Queue.mu guards it.
type podHeap struct {
	entries []*entry
	less    func(a, b *entry) bool
}

var _ heap.Interface = &podHeap{}

func (p *podHeap) Len() int           { return len(p.entries) }
func (p *podHeap) Less(i, j int) bool { return p.less(p.entries[i], p.entries[j]) }
func (p *podHeap) Swap(i, j int) {
	p.entries[i], p.entries[j] = p.entries[j], p.entries[i]
	p.entries[i].index, p.entries[j].index = i, j
}

func (p *podHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(p.entries)
	p.entries = append(p.entries, e)
}

func (p *podHeap) Pop() any {
	last := len(p.entries) - 1
	e := p.entries[last]
	p.entries[last] = nil
	p.entries = p.entries[:last]
	return e
}

// first returns the head of the heap, nil if the heap is empty.
func (p *podHeap) first() *entry {
	if len(p.entries) == 0 {
		return nil
	}
	return p.entries[0]
}

// podList is an unordered list of entries, each of which has its index. It has no lock: Queue.mu
// guards it.
type podList struct{ entries []*entry }

func (p *podList) add(e *entry) {
	e.index = len(p.entries)
	p.entries = append(p.entries, e)
}

func (p *podList) remove(e *entry) {
	p.entries[len(p.entries)-1].index = e.index
	p.entries = replacedByLast(p.entries, e.index)
}

// replacedByLast removes an item of an unordered list: the last item takes its place, and the
// caller gives the last item its new index before.
func replacedByLast[T any](items []*T, index int) []*T {
	last := len(items) - 1
	items[index], items[last] = items[last], nil
	return items[:last]
}
