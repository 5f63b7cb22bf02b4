// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// weather is how often messages suffer from faults: of a thousand messages of a kind, how many do.
// The zero value is a network without faults.
type weather struct {
	// lost requests never reach the API server. lostAnswers are of requests that were executed.
	// hung requests are executed, and their clients do not get an answer for up to a minute.
	lost, lostAnswers, hung int
	// busy requests are refused by the API server: 429, 500, 503 or 504.
	busy int
	// late messages take seconds, up to maxLate.
	late    int
	maxLate time.Duration
	// cut streams end, with an error or without. silent streams deliver nothing for up to maxLate.
	cut, silent int
}

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

// chance draws whether something happens that happens to some of a thousand.
func (w *World) chance(perMille int) bool {
	return perMille > 0 && w.faults.IntN(1000) < perMille
}

// latency draws how long a message takes.
func (w *World) latency() time.Duration {
	if w.chance(w.weather.late) {
		w.counts["fault: late"]++
		return time.Duration(w.faults.Int64N(int64(w.weather.maxLate)))
	}
	return time.Duration(500+w.faults.IntN(4500)) * time.Microsecond
}

// send delivers a request, unless it gets lost.
func (w *World) send(x *exchange) {
	w.counts["requests"]++
	switch {
	case w.chance(w.weather.lost):
		w.fault("lost", x)
		w.after(w.latency(), func() { x.reply(answer{err: errReset}) })
	case w.chance(w.weather.busy):
		w.fault("busy", x)
		refusal := w.refusal(x)
		w.after(w.latency(), func() { x.reply(refusal) })
	default:
		w.after(w.latency(), func() { w.execute(x) })
	}
}

func (w *World) fault(kind string, x *exchange) {
	w.counts["fault: "+kind]++
	what := "read"
	switch {
	case x.isWatch():
		what = "watch"
	case x.isWrite():
		what = "write"
	}
	w.counts["fault: "+kind+" "+what]++
	w.log.add("fault %s: %v", kind, x)
}

// execute lets the API server handle a request, and delivers the answer, unless it gets lost.
func (w *World) execute(x *exchange) {
	if x.req.Context().Err() != nil && w.faults.IntN(2) == 0 {
		return // the client has given up before it was sent
	}
	a, s := w.network.execute(x)
	if x.isWrite() || a.err != nil || a.response.StatusCode >= http.StatusBadRequest {
		w.log.exchange(x, a)
	}
	switch {
	case w.chance(w.weather.lostAnswers):
		w.fault("lost answer", x)
		if s != nil {
			s.end(errReset)
		}
		w.after(w.latency(), func() { x.reply(answer{err: errReset}) })
	case w.chance(w.weather.hung):
		w.fault("hung", x)
		// The client notices that its peer is gone, since the peer does not answer its pings.
		w.after(time.Duration(30+w.faults.IntN(30))*time.Second, func() {
			if s != nil {
				s.end(errReset)
			}
			x.reply(answer{err: errReset})
		})
	default:
		w.after(w.latency(), func() { x.reply(a) })
	}
}

// sendFrame delivers a part of a stream after those before it.
func (w *World) sendFrame(s *stream, deliver func()) {
	w.counts["events"]++
	switch {
	case w.chance(w.weather.cut):
		w.fault("cut", s.of)
		err := []error{io.EOF, errReset, io.ErrUnexpectedEOF}[w.faults.IntN(3)]
		deliver = func() { s.end(err) }
	case w.chance(w.weather.silent):
		w.fault("silent", s.of)
		s.silent = time.Now().Add(time.Duration(w.faults.Int64N(int64(w.weather.maxLate))))
	}
	due := time.Now().Add(w.latency())
	for _, other := range []time.Time{s.due, s.silent} {
		if due.Before(other) {
			due = other
		}
	}
	s.due = due
	w.at(due, deliver)
}

// refusal returns the answer of an API server that has too much to do, or is broken.
func (w *World) refusal(x *exchange) answer {
	none := schema.GroupResource{}
	status := []*apierrors.StatusError{
		apierrors.NewTooManyRequests("the world is busy", 1),
		apierrors.NewInternalError(fmt.Errorf("etcdserver: leader changed")),
		apierrors.NewServiceUnavailable("the world is down"),
		apierrors.NewTimeoutError("the world is slow", 0),
		apierrors.NewServerTimeout(none, x.req.Method, 1),
	}[w.faults.IntN(5)].Status()
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
