// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Wait describes what a pod in the queue waits for.
type Wait struct {
	PodState
	// NextTry is when the pod is tried again at the latest. It is zero if that is not known: for
	// pods that are Active or in flight.
	NextTry time.Time
	// Alike is the number of other pods that the same plugins refused, and that differ in nothing
	// that these plugins' hints read.
	Alike int
	// Group is the pod group that the pod is scheduled with, nil if there is none.
	Group *GroupWait
	// Events are the events that may help the pod, with the plugins that registered for them.
	Events []AwaitedEvent
}

// GroupWait is what a pod group waits for.
type GroupWait struct {
	Key podgroup.Key
	// Known is false if there is no PodGroup object.
	Known bool
	// Needed is the number of pods that must get a node together, and Ready is how many there are.
	Needed, Ready int
	// TreeAwaits is what a group that has enough pods waits for in its tree, "" if nothing.
	TreeAwaits string
}

// AwaitedEvent is an event that may help a pod.
type AwaitedEvent struct {
	Event fwk.ClusterEvent
	// Plugins refused the pod and registered for the event. They are sorted.
	Plugins []string
}

// Wait returns what a pod waits for, and whether it is in the queue.
func (q *Queue) Wait(uid types.UID) (Wait, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.pods[uid]
	if e == nil {
		return Wait{}, false
	}
	w := Wait{PodState: e.state(), NextTry: e.nextTry()}
	if m := e.member.of; q.awaitsGroupLocked(e) {
		w.Group = &GroupWait{Key: e.member.key.Key, Ready: m.ready}
		w.Group.Needed, w.Group.Known = q.groups.Needed(e.member.key.Key)
		if w.Group.Known && m.ready >= w.Group.Needed {
			w.Group.TreeAwaits = q.awaitedTreeLocked(m)
		}
	}
	if e.place.awaitsEvent() {
		if g := e.hintGroup; g != g.kind.unknown {
			w.Alike = len(g.entries) - 1
		}
		w.Events = e.awaitedEvents()
	}
	return w, true
}

// Ready reports whether a pod of a group is in the queue, and could be placed if its group was:
// PreEnqueue plugins admit it.
func (q *Queue) Ready(uid types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.pods[uid]
	return e != nil && e.member.ready
}

// nextTry returns when the pod is tried again at the latest, or zero.
func (e *entry) nextTry() time.Time {
	switch {
	case e.place == Backoff || e.place == ErrorBackoff:
		return e.until
	case e.place.awaitsEvent():
		return e.waitsSince().Add(e.profile.maxInUnschedulable)
	}
	return time.Time{}
}

// awaitedEvents lists the events that a plugin which refused the pod registered for.
func (e *entry) awaitedEvents() []AwaitedEvent {
	events := []AwaitedEvent{}
	for _, eh := range e.profile.hints { // events that differ in their labels only come one after the other
		event := fwk.ClusterEvent{Resource: eh.event.Resource, ActionType: eh.event.ActionType}
		for _, hint := range eh.hints {
			if !e.refusedBy(hint.Plugin) {
				continue
			}
			if len(events) == 0 || events[len(events)-1].Event != event {
				events = append(events, AwaitedEvent{Event: event})
			}
			last := &events[len(events)-1]
			if i, found := slices.BinarySearch(last.Plugins, hint.Plugin); !found {
				last.Plugins = slices.Insert(last.Plugins, i, hint.Plugin)
			}
		}
	}
	return events
}
