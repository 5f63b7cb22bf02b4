// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/sets"
	compmetrics "k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Labels of the events that the queue itself creates.
var (
	labelAdd    = schedframework.EventUnscheduledPodAdd.Label()
	labelUpdate = schedframework.EventUnscheduledPodUpdate.Label()
)

// profileReload is the event label of moves that a reload causes.
const profileReload = "ProfileReload"

// reservationEnded is the event label of moves that ReservationEnded causes.
const reservationEnded = "ReservationEnded"

// metrics holds the handles of kube-scheduler's queue metrics, since looking one up costs more than
// moving a pod. The handles of livesched_pending_pods are in tally. Queue.mu guards it.
type metrics struct {
	// pending holds the gauge of pods per place, nil for places without one. Backoff and
	// ErrorBackoff share a gauge.
	pending [places]compmetrics.GaugeMetric
	// pods and groups hold the gauges of entities per place, as pending does.
	pods, groups [places]compmetrics.GaugeMetric
	incoming     map[incomingKey]*incoming
	// unschedulable counts queued pods per plugin that refused them.
	unschedulable map[reasonKey]compmetrics.GaugeMetric
	popped        compmetrics.GaugeMetric
	inFlight      map[fwk.ClusterEvent]compmetrics.GaugeMetric
	// async records observations that may be lost, on its own goroutine. It may be nil.
	async *schedmetrics.MetricAsyncRecorder
}

type incomingKey struct{ queue, event string }

// incoming counts what entered a queue because of an event. Counters of entities are made when the
// first one enters.
type incoming struct {
	pods     compmetrics.CounterMetric
	entities map[string]compmetrics.CounterMetric // by schedmetrics.Pod or schedmetrics.PodGroup
}

type reasonKey struct{ plugin, schedulerName string }

func newMetrics(async *schedmetrics.MetricAsyncRecorder) *metrics {
	m := &metrics{
		incoming:      map[incomingKey]*incoming{},
		unschedulable: map[reasonKey]compmetrics.GaugeMetric{},
		popped:        schedmetrics.InFlightEvents.WithLabelValues(schedmetrics.PodPoppedInFlightEvent),
		inFlight:      map[fwk.ClusterEvent]compmetrics.GaugeMetric{},
		async:         async,
	}
	m.pending[Active] = schedmetrics.ActivePods()
	m.pending[Backoff] = schedmetrics.BackoffPods()
	m.pending[ErrorBackoff] = m.pending[Backoff]
	m.pending[Unschedulable] = schedmetrics.UnschedulablePods()
	m.pending[Gated] = schedmetrics.GatedPods()
	for kind, gauges := range map[string]*[places]compmetrics.GaugeMetric{
		schedmetrics.Pod: &m.pods, schedmetrics.PodGroup: &m.groups,
	} {
		gauges[Active] = schedmetrics.ActiveEntities(kind)
		gauges[Backoff] = schedmetrics.BackoffEntities(kind)
		gauges[ErrorBackoff] = gauges[Backoff]
		gauges[Unschedulable] = schedmetrics.UnschedulableEntities(kind)
		gauges[Gated] = schedmetrics.GatedEntities(kind)
	}
	return m
}

// moved records that a pod is about to move to another place. It reports whether its entity, which
// is its group or else the pod itself, moves to another queue with it.
func (m *metrics) moved(e *entry, to Place) (entity bool) {
	if g := m.pending[e.place]; g != nil {
		g.Dec()
		e.profile.pending.add(e.place, -1)
	}
	if g := m.pending[to]; g != nil {
		g.Inc()
		e.profile.pending.add(to, 1)
	}
	if e.member.isEntity() {
		return m.movedInGroup(e.member.of, e.place, to)
	}
	addTo(m.pods[e.place], -1)
	addTo(m.pods[to], 1)
	return true
}

// movedInGroup records that a pod of a group that is an entity moves from one place to another,
// either of which may be nowhere. It reports whether the group is in another queue than before, by
// incomingNames.
func (m *metrics) movedInGroup(of *members, from, to Place) (moved bool) {
	if m.groups[from] != nil {
		of.at[from]--
	}
	if m.groups[to] != nil {
		of.at[to]++
	}
	before := of.queue
	of.queue = of.foremost()
	if before == of.queue {
		return false
	}
	addTo(m.groups[before], -1)
	addTo(m.groups[of.queue], 1)
	return incomingNames[before] != incomingNames[of.queue]
}

// addTo adds to the gauge of a place, which is nil for places without one.
func addTo(gauge compmetrics.GaugeMetric, delta float64) {
	if gauge != nil {
		gauge.Add(delta)
	}
}

// incomingNames are the values of the label "queue" of queue_incoming_pods_total and
// queue_incoming_entities_total.
var incomingNames = [places]string{
	Active: "active", Backoff: "backoff", ErrorBackoff: "backoff", Unschedulable: "unschedulable",
	Gated: "unschedulable",
}

// entered counts a pod that moved to a place because of an event.
func (m *metrics) entered(to Place, event string) { m.incomingTo(to, event).pods.Inc() }

// entityEntered counts the entity of a pod, when it has moved to the queue of a place because of an
// event.
func (m *metrics) entityEntered(e *entry, to Place, event string) {
	kind := schedmetrics.Pod
	if e.member.isEntity() {
		kind = schedmetrics.PodGroup
	}
	in := m.incomingTo(to, event)
	c := in.entities[kind]
	if c == nil {
		c = schedmetrics.SchedulerQueueIncomingEntities.WithLabelValues(incomingNames[to], event, kind)
		in.entities[kind] = c
	}
	c.Inc()
}

func (m *metrics) incomingTo(to Place, event string) *incoming {
	key := incomingKey{queue: incomingNames[to], event: event}
	in := m.incoming[key]
	if in == nil {
		in = &incoming{
			pods:     schedmetrics.SchedulerQueueIncomingPods.WithLabelValues(key.queue, key.event),
			entities: map[string]compmetrics.CounterMetric{},
		}
		m.incoming[key] = in
	}
	return in
}

// refused adds delta to the number of queued pods that a plugin refused.
func (m *metrics) refused(plugin, schedulerName string, delta float64) {
	key := reasonKey{plugin: plugin, schedulerName: schedulerName}
	g := m.unschedulable[key]
	if g == nil {
		g = schedmetrics.UnschedulableReason(plugin, schedulerName)
		m.unschedulable[key] = g
	}
	g.Add(delta)
}

// rejected adds delta to the gauges of all plugins that refused the pod: 1 when the pod enters the
// queue, -1 when it leaves.
func (m *metrics) rejected(info *schedframework.QueuedPodInfo, delta float64) {
	for plugin := range info.UnschedulablePlugins {
		m.refused(plugin, info.Pod.Spec.SchedulerName, delta)
	}
	for plugin := range info.PendingPlugins {
		if !info.UnschedulablePlugins.Has(plugin) {
			m.refused(plugin, info.Pod.Spec.SchedulerName, delta)
		}
	}
}

func (m *metrics) podsInFlight(delta float64) { m.popped.Add(delta) }

func (m *metrics) eventInFlight(event fwk.ClusterEvent, delta float64) {
	g := m.inFlight[event]
	if g == nil {
		g = schedmetrics.InFlightEvents.WithLabelValues(event.Label())
		m.inFlight[event] = g
	}
	g.Add(delta)
}

// forget drops the handles of removed profiles, all of whose gauges must be 0.
func (m *metrics) forget(schedulerNames sets.Set[string]) {
	maps.DeleteFunc(m.unschedulable,
		func(key reasonKey, _ compmetrics.GaugeMetric) bool { return schedulerNames.Has(key.schedulerName) })
}
