// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/klog/v2"
)

// ErrOver is the error of what a leader does not do because it may have lost the lease.
var ErrOver = errors.New("the lease was not renewed in time, and another replica may lead")

// Term is the time in which this replica may act as the leader: from the first time that it takes
// the lease to the renew deadline after the last renewal. The lease lasts longer than that, so no
// other replica leads by then.
//
// The elector checks the same, but with a timer, which may fire late: the process may have been
// stopped for longer than the lease, or the machine suspended. So the leader checks the clock
// before it acts.
//
// The elector's goroutine renews and ends the term. All methods are safe for concurrent use, and a
// nil Term, without leader election, is never over.
type Term struct {
	deadline time.Duration

	mu sync.Mutex // guards what follows
	// renewed is when the last successful renewal was sent, zero before the first one.
	renewed time.Time
	// end is set for good when this process has released or lost the lease.
	end bool
	// logged reports whether the end of the term was logged.
	logged bool
}

// NewTerm returns a term that has not begun. deadline is the renew deadline.
func NewTerm(deadline time.Duration) *Term { return &Term{deadline: deadline} }

// Renew begins or extends the term. sent is when the successful renewal was sent.
func (t *Term) Renew(sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = sent
	t.logged = false
}

// End ends the term for good.
func (t *Term) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = true
}

// ended reports whether the term has ended for good.
func (t *Term) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}

// Check returns ErrOver if the term has begun and is over. It may go on after that, unless it has
// ended for good: then this process has kept the lease, and no other has led.
func (t *Term) Check() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.renewed.IsZero() || !t.end && sinceAny(t.renewed) < t.deadline {
		return nil
	}
	if !t.logged {
		t.logged = true
		klog.Background().Info("Acting no longer as the leader, since the lease was not renewed in time", "lastRenewal",
			t.renewed, "ended", t.end)
	}
	return ErrOver
}

// sinceAny returns the time since then by the clock that has advanced more. The monotonic clock
// does not see a suspended machine, and the wall clock may be set back.
func sinceAny(then time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// Guard returns a transport that sends no request that changes anything while the term is over. It
// checks twice. A request may wait long for a rate limit before it gets here, and then for a
// connection, while the process may be stopped. So the last check is when the connection takes the
// body: the API server does nothing without it.
func (t *Term) Guard(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return guard{term: t, next: next}
}

// guard is the transport of Term.Guard.
type guard struct {
	term *Term
	next http.RoundTripper
}

// RoundTrip sends a request, or returns ErrOver.
func (g guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		if err := g.term.Check(); err != nil {
			if request.Body != nil {
				_ = request.Body.Close()
			}
			return nil, err
		}
		request = g.withLateCheck(request)
	}
	return g.next.RoundTrip(request)
}

// withLateCheck returns the request with a body that cannot be read once the term is over.
func (g guard) withLateCheck(request *http.Request) *http.Request {
	if request.Body == nil || request.ContentLength <= 0 { // another body would hide that it is empty
		return request
	}
	checked := request.WithContext(request.Context()) // a copy, since the request is the caller's
	checked.Body = termBody{request.Body, g.term}
	if again := request.GetBody; again != nil {
		checked.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return termBody{body, g.term}, nil
		}
	}
	return checked
}

// termBody is the body of a request that changes something.
type termBody struct {
	io.ReadCloser
	term *Term
}

// Read reads the body, or returns ErrOver.
func (t termBody) Read(p []byte) (int, error) {
	if err := t.term.Check(); err != nil {
		return 0, err
	}
	return t.ReadCloser.Read(p)
}

// WrappedRoundTripper returns the transport below, for client-go.
func (g guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// CloseIdleConnections closes those of the transport below, for http.Client.
func (g guard) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(g.next) }
