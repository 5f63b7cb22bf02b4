// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"github.com/prometheus/client_golang/prometheus"
	compmetrics "k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	ownmetrics "github.com/livesched/livesched/internal/scheduler/metrics"
)

// The labels of events that the queue itself makes.
var (
	labelAdd    = schedframework.EventUnscheduledPodAdd.Label()
	labelUpdate = schedframework.EventUnscheduledPodUpdate.Label()
)

// profileReload is the label of moves that a reload causes.
const profileReload = "ProfileReload"

// metrics is kube-scheduler's queue metrics. Their handles are kept, as looking one up costs more
// than moving a pod; those of our own pending pods are kept by the profiles. Guarded by Queue.mu.
type metrics struct {
	// pending counts pods per place; nil where none is counted. Backoff and ErrorBackoff share one.
	pending  [places]compmetrics.GaugeMetric
	incoming map[incomingKey]compmetrics.CounterMetric
	// unschedulable counts queued pods per plugin that refused them.
	unschedulable map[reasonKey]compmetrics.GaugeMetric
	popped        compmetrics.GaugeMetric
	inFlight      map[fwk.ClusterEvent]compmetrics.GaugeMetric
	// async takes what may be lost, off the queue's goroutines. May be nil.
	async *schedmetrics.MetricAsyncRecorder
}

type incomingKey struct{ queue, event string }

type reasonKey struct{ plugin, schedulerName string }

func newMetrics(async *schedmetrics.MetricAsyncRecorder) *metrics {
	m := &metrics{
		incoming:      map[incomingKey]compmetrics.CounterMetric{},
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
	return m
}

// moved records that a pod is about to be in another place.
func (m *metrics) moved(e *entry, to Place) {
	if g := m.pending[e.place]; g != nil {
		g.Dec()
		e.profile.pending[e.place].Dec()
	}
	if g := m.pending[to]; g != nil {
		g.Inc()
		e.profile.pending[to].Inc()
	}
}

// pendingOf are the gauges of livesched_pending_pods of one profile, per place; nil where nothing
// is counted. They are there, at 0, before the first pod.
func pendingOf(schedulerName string) (gauges [places]prometheus.Gauge) {
	for place, queue := range map[Place]string{
		Active:        ownmetrics.QueueActive,
		Backoff:       ownmetrics.QueueBackoff,
		ErrorBackoff:  ownmetrics.QueueBackoff,
		Unschedulable: ownmetrics.QueueUnschedulable,
		Gated:         ownmetrics.QueueGated,
	} {
		gauges[place] = ownmetrics.PendingPods.WithLabelValues(schedulerName, queue)
	}
	return gauges
}

// incomingNames are the values of the label queue of queue_incoming_pods_total.
var incomingNames = [places]string{
	Active: "active", Backoff: "backoff", ErrorBackoff: "backoff", Unschedulable: "unschedulable", Gated: "unschedulable",
}

// entered counts a pod that came into a place because of an event.
func (m *metrics) entered(to Place, event string) {
	key := incomingKey{queue: incomingNames[to], event: event}
	c := m.incoming[key]
	if c == nil {
		c = schedmetrics.SchedulerQueueIncomingPods.WithLabelValues(key.queue, key.event)
		m.incoming[key] = c
	}
	c.Inc()
}

// refused adds to the number of queued pods that a plugin refused.
func (m *metrics) refused(plugin, schedulerName string, delta float64) {
	key := reasonKey{plugin: plugin, schedulerName: schedulerName}
	g := m.unschedulable[key]
	if g == nil {
		g = schedmetrics.UnschedulableReason(plugin, schedulerName)
		m.unschedulable[key] = g
	}
	g.Add(delta)
}

// rejected adds to the gauges of all plugins that refused the pod: 1 when it enters the queue, -1
// when it leaves.
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

// forgetProfile lets go of the handles of a profile that is gone, and deletes the series that are
// the queue's alone. The gauges themselves are at 0 then.
func (m *metrics) forgetProfile(schedulerName string) {
	ownmetrics.PendingPods.DeletePartialMatch(prometheus.Labels{ownmetrics.LabelProfile: schedulerName})
	for key := range m.unschedulable {
		if key.schedulerName == schedulerName {
			delete(m.unschedulable, key)
		}
	}
}
