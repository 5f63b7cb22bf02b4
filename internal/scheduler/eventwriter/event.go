// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"cmp"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reasonScheduled is the reason of kube-scheduler's Event about a bound pod.
const reasonScheduled = "Scheduled"

// reporter is the reporting controller and instance of an Event.
type reporter struct{ controller, instance string }

// occurrence is what is recorded. related is the zero value if there is no such object.
type occurrence struct {
	reporter                        reporter
	eventType, reason, action, note string
	regarding, related              corev1.ObjectReference
}

// key identifies the series of an occurrence: what is the same except for the versions of objects
// belongs to one.
func (o occurrence) key() occurrence {
	o.regarding.ResourceVersion, o.related.ResourceVersion = "", ""
	return o
}

// event is an Event with all its occurrences. The fields above the blank line are immutable;
// queue.mu guards the others.
type event struct {
	occurrence
	// name is the name of the API object, first the time of the first occurrence.
	name  string
	first time.Time

	// count is the number of occurrences, last the time of the latest.
	count int32
	last  time.Time
	// written is the count that was last written to the API server, 0 if the Event was never
	// written. writtenAt is the time of that write.
	written   int32
	writtenAt time.Time
	// pending means that the Event is queued or that a worker is writing it. pendingSince is when
	// it was queued.
	pending      bool
	pendingSince time.Time
	// tries is the number of consecutive failures to write it.
	tries int
	// cached means that the Event is in queue.series.
	cached bool
}

// deferrable reports whether the Event can wait, since the status of its object shows the same.
func (e *event) deferrable() bool {
	return e.reason == reasonScheduled && e.eventType == corev1.EventTypeNormal
}

// namespace returns the namespace of the Event: the one of its object, or default for an object
// without one.
func (e *event) namespace() string {
	return cmp.Or(e.regarding.Namespace, metav1.NamespaceDefault)
}

// object returns the API object with the count and the last time of a task.
func (e *event) object(count int32, last time.Time) *eventsv1.Event {
	object := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: e.name, Namespace: e.namespace()},
		EventTime:           metav1.NewMicroTime(e.first),
		Series:              seriesOf(count, last),
		ReportingController: e.reporter.controller,
		ReportingInstance:   e.reporter.instance,
		Action:              e.action,
		Reason:              e.reason,
		Regarding:           e.regarding,
		Note:                e.note,
		Type:                e.eventType,
	}
	if e.related != (corev1.ObjectReference{}) {
		object.Related = &e.related
	}
	return object
}

// seriesOf returns nil for a single occurrence, as the API requires.
func seriesOf(count int32, last time.Time) *eventsv1.EventSeries {
	if count < 2 {
		return nil
	}
	return &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(last)}
}

// seriesPatch returns a strategic merge patch that updates the series.
func seriesPatch(count int32, last time.Time) ([]byte, error) {
	return json.Marshal(struct {
		Series *eventsv1.EventSeries `json:"series"`
	}{seriesOf(count, last)})
}
