// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reasonScheduled is the reason of kube-scheduler's Event about a pod that is bound.
const reasonScheduled = "Scheduled"

// author is who says something.
type author struct{ controller, instance string }

// key is what makes two Events one series.
type key struct {
	author                          author
	eventType, reason, action, note string
	regarding, related              objectKey
}

// objectKey is an object in all its versions.
type objectKey struct {
	kind, apiVersion, namespace, name, fieldPath string
	uid                                          types.UID
}

func keyOf(r *corev1.ObjectReference) objectKey {
	if r == nil {
		return objectKey{}
	}
	return objectKey{kind: r.Kind, apiVersion: r.APIVersion, namespace: r.Namespace, name: r.Name, fieldPath: r.FieldPath, uid: r.UID}
}

// event is something that was said, once or more. What is above the line is not changed after it
// was made; the rest is guarded by backlog.mu.
type event struct {
	author                          author
	eventType, reason, action, note string
	regarding                       corev1.ObjectReference
	related                         *corev1.ObjectReference
	// name of the object, and first, when it was said.
	name  string
	first time.Time

	// count is how often it was said, and last when it was said last.
	count int32
	last  time.Time
	// written is the count that the API server knows, 0 if it does not know the Event. writtenAt is
	// when it was told.
	written   int32
	writtenAt time.Time
	// queued says that it is in a lane or with a worker, and since when it has been.
	queued bool
	since  time.Time
	// tries is how often writing it failed in a row.
	tries int
	// known is its place in the memory of series, nil if it is not in it.
	known *memory
}

// later says whether the Event can wait, since the status of its object says the same.
func (e *event) later() bool {
	return e.reason == reasonScheduled && e.eventType == corev1.EventTypeNormal
}

func (e *event) key() key {
	return key{
		author: e.author, eventType: e.eventType, reason: e.reason, action: e.action, note: e.note,
		regarding: keyOf(&e.regarding), related: keyOf(e.related),
	}
}

// namespace is where the Event is kept: that of its object, default for one without.
func (e *event) namespace() string {
	if e.regarding.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return e.regarding.Namespace
}

// object makes the API's object, with the counts that were read under the lock.
func (e *event) object(count int32, last time.Time) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: e.name, Namespace: e.namespace()},
		EventTime:           metav1.NewMicroTime(e.first),
		Series:              seriesOf(count, last),
		ReportingController: e.author.controller,
		ReportingInstance:   e.author.instance,
		Action:              e.action,
		Reason:              e.reason,
		Regarding:           e.regarding,
		Related:             e.related,
		Note:                e.note,
		Type:                e.eventType,
	}
}

// seriesOf is nil for what was said once, as the API wants it.
func seriesOf(count int32, last time.Time) *eventsv1.EventSeries {
	if count < 2 {
		return nil
	}
	return &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(last)}
}

// seriesPatch is a strategic merge patch that updates the series.
func seriesPatch(count int32, last time.Time) ([]byte, error) {
	return json.Marshal(struct {
		Series *eventsv1.EventSeries `json:"series"`
	}{seriesOf(count, last)})
}
