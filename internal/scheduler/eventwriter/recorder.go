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

// recorder is what plugins and the scheduler speak through. It has no state but for the backlog,
// and is cheap to copy.
type recorder struct {
	backlog *backlog
	author  author
	logger  klog.Logger
}

var _ events.EventRecorderLogger = recorder{}

// NewRecorder returns a recorder whose Events name a scheduler as their reporting controller. Its
// methods return at once, and are safe for concurrent use, also under locks and after Close, when
// they do nothing.
func (w *Writer) NewRecorder(schedulerName string) events.EventRecorderLogger {
	host, _ := os.Hostname() // empty where it is not known, as in client-go's recorders
	return recorder{backlog: w.backlog, author: author{schedulerName, schedulerName + "-" + host}, logger: klog.Background()}
}

// WithLogger returns a recorder that logs to another logger what it cannot record.
func (r recorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	r.logger = logger
	return r
}

// Eventf records an Event about an object, which may be any of the API. related may be nil.
func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	now := time.Now()
	about, err := reference.GetReference(scheme.Scheme, regarding)
	if err != nil {
		r.logger.Error(err, "An Event is about no object of the API; it is not recorded", "eventType", eventType, "reason", reason, "note", fmt.Sprintf(note, args...))
		return
	}
	if !util.ValidateEventType(eventType) {
		r.logger.Error(nil, "An Event is of an unknown type; it is not recorded", "eventType", eventType, "reason", reason)
		return
	}
	e := &event{
		author: r.author, eventType: eventType, reason: reason, action: action, note: fmt.Sprintf(note, args...),
		regarding: *about, first: now, last: now, count: 1,
	}
	if related != nil {
		if e.related, err = reference.GetReference(scheme.Scheme, related); err != nil {
			r.logger.V(9).Info("What an Event is related to is no object of the API", "err", err)
		}
	}
	r.backlog.add(e)
}
