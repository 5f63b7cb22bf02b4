// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// collect takes what has arrived, and adds its delivery to the agenda. It reports whether there was
// something.
func (w *World) collect() (found bool) {
	for _, x := range w.network.take() {
		found = true
		w.send(x)
	}
	for _, s := range w.network.streamsOf(nil) {
		frames, ended := s.take()
		for _, frame := range frames {
			found = true
			w.sendFrame(s, func() { s.deliver(frame) })
		}
		if ended && !s.closing {
			found, s.closing = true, true
			w.sendFrame(s, func() { s.end(io.EOF) })
		}
	}
	return found
}

// latency draws how long a message takes.
func (w *World) latency(x *exchange) time.Duration {
	if w.strikes(faultLate, x) {
		return time.Duration(w.faults.Int64N(int64(maxLate)))
	}
	return time.Duration(500+w.faults.IntN(4500)) * time.Microsecond
}

// later runs something for a message to or from a process, which is held back while the process
// has no network.
func (w *World) later(x *exchange, after time.Duration, run func()) {
	due := time.Now().Add(after)
	if due.Before(x.from.stalled) {
		due = x.from.stalled.Add(after)
	}
	w.at(due, run)
}

// send delivers a request, unless it gets lost.
func (w *World) send(x *exchange) {
	w.counts["requests"]++
	if x.isWrite() && x.message() != messageLease && x.message() != messageEvent {
		w.counts["writes"]++
	}
	w.checkTerm(x)
	x.sent = time.Now()
	switch {
	case time.Now().Before(w.outage):
		w.counts["requests in outages"]++
		w.disturb(x)
		w.later(x, w.latency(x), func() { x.reply(answer{err: errClosed}) })
	case w.strikes(faultLost, x):
		w.later(x, w.latency(x), func() { x.reply(answer{err: errReset}) })
	case w.strikes(faultBusy, x):
		refusal := w.refusal(x, w.busy(x))
		w.later(x, w.latency(x), func() { x.reply(refusal) })
	case w.strikes(faultRefused, x):
		refusal := w.refusal(x, w.refused(x))
		w.later(x, w.latency(x), func() { x.reply(refusal) })
	case w.strikes(faultKilled, x):
		executed := w.faults.IntN(2) == 0
		w.killProcess(x.from)
		if executed {
			w.later(x, w.latency(x), func() { w.executeUnanswered(x) })
		}
	default:
		w.later(x, w.latency(x), func() { w.execute(x) })
	}
}

// execute lets the API server handle a request, and delivers the answer, unless it gets lost.
func (w *World) execute(x *exchange) {
	if x.req.Context().Err() != nil && w.faults.IntN(2) == 0 {
		w.disturb(x)
		return // the client has given up before it was sent
	}
	if x.writesObject() && w.strikes(faultChanged, x) {
		w.change(x)
	}
	a, s := w.network.execute(x)
	w.executed(x, a, x.req.Context().Err() == nil && !x.from.isGone())
	if a.err != nil || a.response.StatusCode >= http.StatusBadRequest {
		w.disturb(x)
	}
	if x.isWrite() && w.strikes(faultTwice, x) {
		w.later(x, w.latency(x), func() {
			before := w.etcd.Revision()
			w.executeUnanswered(x)
			if x.message() == messageStatus && w.etcd.Revision() != before { // over what came in between
				w.overwritten[x.req.URL.Path] = true
			}
		})
	}
	switch {
	case w.strikes(faultLostAnswer, x):
		if s != nil {
			s.end(errReset)
		}
		w.later(x, w.latency(x), func() { x.reply(answer{err: errReset}) })
	case w.strikes(faultHung, x):
		// The client notices that its peer is gone, since the peer does not answer its pings.
		w.after(time.Duration(30+w.faults.IntN(30))*time.Second, func() {
			if s != nil {
				s.end(errReset)
			}
			x.reply(answer{err: errReset})
		})
	default:
		w.later(x, w.latency(x), func() { x.reply(a) })
	}
}

// executeUnanswered lets the API server handle a request whose client waits for no answer.
func (w *World) executeUnanswered(x *exchange) {
	a, _ := w.network.execute(x)
	w.executed(x, a, false)
}

// executed notes what the API server has answered, and whether the client waits for that.
func (w *World) executed(x *exchange, a answer, awaited bool) {
	if x.isWrite() || a.err != nil || a.response.StatusCode >= http.StatusBadRequest {
		w.log.exchange(x, a)
	}
	if a.err == nil && a.response.StatusCode < http.StatusBadRequest {
		w.noteTerm(x)
		if x.message() == messageStatus {
			w.noteStatus(x, awaited && w.term.holder == x.from)
		}
	}
}

// sendFrame delivers a part of a stream after those before it.
func (w *World) sendFrame(s *stream, deliver func()) {
	w.counts["events"]++
	switch {
	case w.strikes(faultCut, s.of):
		err := []error{io.EOF, errReset, io.ErrUnexpectedEOF}[w.faults.IntN(3)]
		deliver = func() { s.end(err) }
	case w.strikes(faultSilent, s.of):
		s.silent = time.Now().Add(time.Duration(w.faults.Int64N(int64(maxLate))))
	}
	due := time.Now().Add(w.latency(s.of))
	for _, other := range []time.Time{s.due, s.silent, s.of.from.stalled} {
		if due.Before(other) {
			due = other
		}
	}
	s.due = due
	w.at(due, deliver)
}

// busy draws an error of an API server that has too much to do, or is broken.
func (w *World) busy(x *exchange) *apierrors.StatusError {
	return []*apierrors.StatusError{
		apierrors.NewTooManyRequests("the world is busy", 1),
		apierrors.NewInternalError(fmt.Errorf("etcdserver: leader changed")),
		apierrors.NewServiceUnavailable("the world is down"),
		apierrors.NewTimeoutError("the world is slow", 0),
		apierrors.NewServerTimeout(schema.GroupResource{}, x.req.Method, 1),
	}[w.faults.IntN(5)]
}

// refused draws an error of an API server that does not accept a write.
func (w *World) refused(x *exchange) *apierrors.StatusError {
	name := path.Base(x.req.URL.Path)
	conflict := apierrors.NewConflict(schema.GroupResource{}, name, errors.New("the object has been modified"))
	if x.message() == messageStatus {
		return conflict // livesched does not write again what is forbidden or invalid
	}
	refusals := []*apierrors.StatusError{
		apierrors.NewForbidden(schema.GroupResource{}, name, errors.New("admission webhook denied the request")),
		apierrors.NewInvalid(schema.GroupKind{}, name, nil),
	}
	if x.req.Method != http.MethodDelete { // there, it means that the name is that of another object
		refusals = append(refusals, conflict)
	}
	return one(w.faults, refusals)
}

// refusal returns the answer with an error.
func (w *World) refusal(x *exchange, refused *apierrors.StatusError) answer {
	status := refused.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := encodeStatus(&status)
	if err != nil {
		return answer{err: err}
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		header.Set("Retry-After", fmt.Sprint(status.Details.RetryAfterSeconds))
	}
	return answer{response: &http.Response{StatusCode: int(status.Code), Status: http.StatusText(int(status.Code)),
		Header: header, Request: x.req, Body: io.NopCloser(bytes.NewReader(body))}}
}

func encodeStatus(status *metav1.Status) ([]byte, error) {
	var out bytes.Buffer
	err := scheme.Codecs.LegacyCodec(schema.GroupVersion{Version: "v1"}).Encode(status, &out)
	return out.Bytes(), err
}
