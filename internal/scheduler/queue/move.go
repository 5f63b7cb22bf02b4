// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Move reports an event in the cluster: the queue requeues the Unschedulable and Gated pods that
// the event may help, and keeps the event for the pods in flight. oldObj is nil for an added
// object, newObj for a deleted one. precheck, if not nil, selects the waiting pods to consider; it
// is called with the queue's lock held.
//
// A wildcard event concerns all pods or, if newObj is a pod, that pod only.
//
// The call holds the queue in short turns, between which other calls may take place. It considers
// the pods that wait when it begins; all of them have been considered when it returns.
func (q *Queue) Move(logger klog.Logger, event fwk.ClusterEvent, oldObj, newObj any, precheck func(*corev1.Pod) bool) {
	takeTurns(newMove(q, logger, clusterEvent{event: event, oldObj: oldObj, newObj: newObj}, precheck).runTurn)
}

// NominationEnded reports that a pod no longer holds its nominated node, which its status may not
// name yet. Pods of its priority and below had to take it into account; for them this is like the
// deletion of an assigned pod. Pods whose scheduler name has no profile are not taken into account
// by anyone.
func (q *Queue) NominationEnded(logger klog.Logger, pod *corev1.Pod, node string) {
	if q.currentRules().profiles[pod.Spec.SchedulerName] == nil {
		return
	}
	if pod.Status.NominatedNodeName != node { // queueing hints pass over a pod without a node
		nominated := *pod
		nominated.Status.NominatedNodeName = node
		pod = &nominated
	}
	q.nominationEnded(logger, pod)
}

// nominationEnded is NominationEnded for a pod whose status names the node, whether or not its
// scheduler name has a profile.
func (q *Queue) nominationEnded(logger klog.Logger, pod *corev1.Pod) {
	priority := corev1helpers.PodPriority(pod)
	q.Move(logger, schedframework.EventAssignedPodDelete, pod, nil, func(other *corev1.Pod) bool {
		return corev1helpers.PodPriority(other) <= priority
	})
}

// move is one call of Move. The goroutine that makes the call owns it.
type move struct {
	*Queue
	logger   klog.Logger
	event    clusterEvent
	precheck func(*corev1.Pod) bool
	// maxPods is the number of pods and hint groups that one turn looks at, at most.
	maxPods int

	begun bool
	// arrivals is the number of the last pod that came to wait before the event. Pods that come
	// later were popped after the event, or consider it when they come.
	arrivals uint64
	// itself is the waiting pod that the event is about, nil if there is none.
	itself *entry
	// hintGroups are those that the move has not looked at yet, and candidates are pods of the
	// others. The move first looks at all hint groups. Then it sorts the candidates by priority:
	// between two turns, a pod of lower priority must not take the room of a pod of higher
	// priority.
	hintGroups []*hintGroup
	candidates []candidate
	sorted     bool
	// label is the label of the event. It is set when the first pod moves; most events move none.
	label string
}

// candidate is a waiting pod that a move or a reload has to look at.
type candidate struct {
	*entry
	priority int32
	// alike is the hint group whose pods are requeued by strategy. If it is nil, or the pod has
	// left it since, the hints are called for the pod.
	alike    *hintGroup
	strategy strategy
	// awaits means that the event is the end of a pod for which preemption waits.
	awaits bool
}

func newCandidate(e *entry) candidate {
	return candidate{entry: e, priority: corev1helpers.PodPriority(e.pod)}
}

// byPriority orders candidates by descending priority.
func byPriority(a, b candidate) int { return cmp.Compare(b.priority, a.priority) }

func newMove(q *Queue, logger klog.Logger, ev clusterEvent, precheck func(*corev1.Pod) bool) *move {
	return &move{Queue: q, logger: logger, event: ev, precheck: precheck, maxPods: turnPods}
}

// runTurn does as much of the work as fits into one turn. It returns false when no work is left.
func (m *move) runTurn() (more bool) {
	if m.begun && len(m.hintGroups) == 0 {
		m.sort()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	if !m.begun {
		m.begun = true
		m.beginLocked()
	}
	if !m.sorted {
		m.hintGroups = processSome(m.hintGroups, m.maxPods, m.lookAtLocked)
		if len(m.hintGroups) > 0 || len(m.candidates) > m.maxPods {
			return true
		}
		m.sort()
	}
	m.candidates = processSome(m.candidates, m.maxPods, m.considerLocked)
	return len(m.candidates) > 0
}

// sort sorts the candidates by priority. The order of the queue would need its lock for as long as
// many candidates take.
func (m *move) sort() {
	if !m.sorted {
		slices.SortStableFunc(m.candidates, byPriority)
		m.sorted = true
	}
}

// beginLocked keeps the event for the pods in flight, and collects the hint groups that it
// concerns.
func (m *move) beginLocked() {
	event := m.event.event
	if !m.rules.interested(event) {
		return
	}
	m.inFlight.record(m.event)
	m.arrivals = m.unschedulable.arrivals
	if pod, ok := m.event.newObj.(*corev1.Pod); ok {
		if e := m.pods[pod.UID]; e != nil && e.place.awaitsEvent() {
			m.itself = e
			m.candidates = append(m.candidates, newCandidate(e))
		}
	}
	if m.event.newObj != nil && schedframework.ClusterEventIsWildCard(event) {
		return
	}
	if pod := m.event.ended(); pod != nil {
		m.collectAwaitingLocked(pod)
	}
	for _, k := range m.unschedulable.ordered {
		if !k.profile.replaced && k.concerns(event) {
			m.hintGroups = append(m.hintGroups, k.groups...)
		}
	}
}

// collectAwaitingLocked collects the pods for which preemption waits for the end of a pod.
func (m *move) collectAwaitingLocked(ended *corev1.Pod) {
	collect := func(uid types.UID) {
		if e := m.pods[uid]; e != nil && e.place == Unschedulable {
			c := newCandidate(e)
			c.awaits = true
			m.candidates = append(m.candidates, c)
		}
	}
	for _, nominated := range m.nominator.NominatedPodsForNode(ended.Spec.NodeName) {
		collect(nominated.GetPod().UID)
	}
	for p := range m.rules.all() {
		for _, pl := range p.awaiters {
			for _, uid := range pl.AwaitedBy(ended.UID) {
				collect(uid)
			}
		}
	}
}

// lookAtLocked collects the pods of a hint group, unless the event helps none of them.
func (m *move) lookAtLocked(g *hintGroup) {
	if len(g.entries) == 0 || g.kind.profile.replaced {
		return
	}
	c := candidate{}
	if g.alike(&m.event) {
		one := g.entries[len(g.entries)-1]
		if one == m.itself {
			one = g.entries[0]
		}
		if one == m.itself {
			return // it is the only one, and a candidate already
		}
		c.alike, c.strategy = g, m.worthRequeuingLocked(m.logger, one, &m.event)
		if c.strategy == stay {
			return
		}
	}
	m.candidates = slices.Grow(m.candidates, len(g.entries))
	for _, c.entry = range g.entries {
		if c.entry != m.itself {
			c.priority = corev1helpers.PodPriority(c.entry.pod)
			m.candidates = append(m.candidates, c)
		}
	}
}

// considerLocked requeues a pod that the event may help.
func (m *move) considerLocked(c candidate) {
	e := c.entry
	if !e.place.awaitsEvent() || e.arrival > m.arrivals || e.outdatedLocked() || m.precheck != nil &&
		!m.precheck(e.pod) {
		return
	}
	s := c.strategy
	if c.alike == nil || c.alike != e.hintGroup {
		s = stay
		if e.awaits(m.event.event) {
			s = m.worthRequeuingLocked(m.logger, e, &m.event)
		}
		if c.awaits && e.place == Unschedulable {
			s = max(s, afterBackoff)
		}
	}
	switch {
	case s == stay:
		return
	case e.staysGatedLocked():
		e.missed = max(e.missed, s)
		return
	}
	if m.label == "" {
		m.label = m.event.event.Label()
	}
	m.enqueueLocked(m.logger, e, s, m.label)
}

// Activate moves the given pods to Active without waiting for their back-off; gated pods only if
// their PreEnqueue plugins admit them. Pods in flight are retried when they come back. Pods that
// are not in the queue are ignored, and so are the keys of the map.
func (q *Queue) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pod := range pods {
		e := q.pods[pod.UID]
		if e == nil || !q.renewLocked(logger, e) {
			continue
		}
		switch {
		case e.place == Active:
		case e.place == InFlight:
			q.inFlight.record(clusterEvent{event: schedframework.EventForceActivate, newObj: pod})
		case e.place == Backoff, e.place == ErrorBackoff && e.failures == 0:
			q.moveLocked(logger, e, Active, schedframework.ForceActivate)
		default:
			q.enqueueLocked(logger, e, immediately, schedframework.ForceActivate)
		}
	}
}
