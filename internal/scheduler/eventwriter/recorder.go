// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
)

// recorder is the event recorder of the scheduler and its plugins. It has no state and is cheap to
// copy.
type recorder struct {
	queue    *queue
	reporter reporter
	logger   klog.Logger
}

var _ events.EventRecorderLogger = recorder{}

// NewRecorder returns a recorder whose Events have the scheduler as their reporting controller. Its
// methods return immediately and are safe for concurrent use, even with locks held. After Close
// they do nothing.
func (w *Writer) NewRecorder(schedulerName string) events.EventRecorderLogger {
	host, _ := os.Hostname() // empty if it is unknown, as in client-go's recorders
	return recorder{queue: w.queue, reporter: reporter{schedulerName, schedulerName + "-" + host},
		logger: klog.Background()}
}

// WithLogger returns a recorder that logs its errors with logger.
func (r recorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	r.logger = logger
	return r
}

// Eventf records an Event about an API object. related may be nil.
func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	now := time.Now()
	about, err := reference.GetReference(scheme.Scheme, regarding)
	if err != nil {
		r.logger.Error(err, "Could not record an Event: it does not regard an API object", "eventType", eventType,
			"reason", reason, "note", fmt.Sprintf(note, args...))
		return
	}
	if !util.ValidateEventType(eventType) {
		r.logger.Error(nil, "Could not record an Event: its type is unknown", "eventType", eventType, "reason", reason)
		return
	}
	e := &event{first: now, last: now, count: 1, occurrence: occurrence{
		reporter: r.reporter, eventType: eventType, reason: reason, action: action, note: fmt.Sprintf(note, args...),
		regarding: *about,
	}}
	if related != nil {
		if ref, err := reference.GetReference(scheme.Scheme, related); err == nil {
			e.related = *ref
		} else {
			r.logger.V(9).Info("The related object of an Event is not an API object", "err", err)
		}
	}
	r.queue.add(e)
}
