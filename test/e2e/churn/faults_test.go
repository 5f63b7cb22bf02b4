// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// errReset is the error of a call whose connection breaks.
var errReset = errors.New("churn: spoilt: connection reset")

// faults stands between one replica and the API server.
type faults struct {
	counts *counts
	audit  *audit

	// likelihood is the chance, in percent, that a call that may have a fault gets one. 0: no new
	// faults.
	likelihood atomic.Int32

	mu      sync.Mutex // guards what follows
	watches map[*cuttable]struct{}
	// severed, if not nil, is closed when the API server is reachable again.
	severed chan struct{}
	// calm is closed to end delays.
	calm chan struct{}
}

func newFaults(c *counts, a *audit) *faults {
	return &faults{counts: c, audit: a, watches: map[*cuttable]struct{}{}, calm: make(chan struct{})}
}

// config returns a client configuration whose calls go through the faults.
func (f *faults) config(of *rest.Config) *rest.Config {
	c := rest.CopyConfig(of)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return f.roundTrip(r, next) })
	})
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f *faults) roundTrip(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	if f.isSevered() {
		return nil, errReset
	}
	send := func() (*http.Response, error) { return f.send(r, next) }
	switch what := f.spoilable(r); {
	case r.URL.Query().Get("watch") != "":
		return f.watch(r, send)
	case what == "" || rand.Int32N(100) >= f.likelihood.Load():
		return send()
	default:
		return f.spoil(what, r, send)
	}
}

// send sends a call and audits bindings.
func (f *faults) send(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	if !isBinding(r) {
		return next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	binding, err := decodeBinding(body)
	if err != nil {
		return nil, fmt.Errorf("auditing a binding: %w", err)
	}
	answer, err := next.RoundTrip(r)
	if err == nil {
		f.audit.note(binding, answer.StatusCode)
	}
	return answer, err
}

// spoilable names the kind of a call that may get a fault.
func (f *faults) spoilable(r *http.Request) string {
	path := r.URL.Path
	switch {
	case isBinding(r):
		return "bind"
	case strings.Contains(path, "/pods/") && r.Method == http.MethodPatch:
		return "pod status"
	case strings.Contains(path, "/pods/") && r.Method == http.MethodDelete:
		return "eviction"
	case strings.Contains(path, "/pods/") && r.Method == http.MethodGet:
		return "pod read"
	case strings.Contains(path, "/persistentvolume") && r.Method != http.MethodGet:
		return "volume"
	case strings.Contains(path, "/resourceclaims/") && r.Method != http.MethodGet:
		return "device claim"
	case strings.Contains(path, "/livesched.io/") && r.Method != http.MethodGet:
		return "profile status"
	case strings.Contains(path, "/controllerrevisions") && r.Method != http.MethodGet:
		return "revision"
	}
	return ""
}

// The longest delays of late calls and of calls without a response. The latter is longer than
// livesched waits for most calls.
const (
	longestDelay = 600 * time.Millisecond
	longestHang  = 20 * time.Second
)

// spoil gives a call one of the faults.
func (f *faults) spoil(what string, r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	f.counts.add("fault: "+what, 1)
	switch kind := rand.IntN(10); kind {
	case 0:
		return failure(r, http.StatusInternalServerError, metav1.StatusReasonInternalError), nil
	case 1:
		if what == "bind" || what == "profile status" {
			return failure(r, http.StatusConflict, metav1.StatusReasonConflict), nil
		}
		return failure(r, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable), nil
	case 2, 3:
		return nil, errReset
	case 4, 5: // it is executed, but the caller gets an error
		if err := execute(send); err != nil {
			return nil, err
		}
		if kind == 4 {
			return nil, errReset
		}
		return failure(r, http.StatusGatewayTimeout, metav1.StatusReasonTimeout), nil
	case 6: // client-go repeats the call after a second if the response has a Retry-After
		refusal := failure(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
		if rand.IntN(2) == 0 {
			refusal.Header.Set("Retry-After", "1")
		}
		return refusal, nil
	case 7: // it hangs, executed or not, until the caller gives up or the connection breaks
		f.counts.add("fault: hangs", 1)
		if rand.IntN(2) == 0 {
			if err := execute(send); err != nil {
				return nil, err
			}
		}
		if err := f.delay(r.Context(), rand.N(longestHang)); err != nil {
			return nil, err
		}
		return nil, errReset
	default: // late
		if err := f.delay(r.Context(), rand.N(longestDelay)); err != nil {
			return nil, err
		}
		return send()
	}
}

// execute sends a call and drops the response.
func execute(send func() (*http.Response, error)) error {
	answer, err := send()
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// delay waits, unless the faults end.
func (f *faults) delay(ctx context.Context, d time.Duration) error {
	f.mu.Lock()
	calm := f.calm
	f.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-calm:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// begin enables faults, end removes them all.
func (f *faults) begin(likelihood int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.calm:
		f.calm = make(chan struct{})
	default:
	}
	f.likelihood.Store(likelihood)
}

func (f *faults) end() {
	f.likelihood.Store(0)
	f.rejoin()
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.calm:
	default:
		close(f.calm)
	}
}

// sever makes the API server unreachable until rejoin is called.
func (f *faults) sever() {
	f.mu.Lock()
	if f.severed == nil {
		f.severed = make(chan struct{})
	}
	f.mu.Unlock()
	f.cut(func(string) bool { return true })
}

func (f *faults) rejoin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.severed != nil {
		close(f.severed)
		f.severed = nil
	}
}

func (f *faults) isSevered() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.severed != nil
}

// watch passes a watch on so that it can be cut. One that resumes where it was cut may be refused,
// so that its informer must list again and learns late about deletions, or delayed, so that the
// replica's state is older.
func (f *faults) watch(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	query := r.URL.Query()
	resumes := query.Get("sendInitialEvents") == "" && query.Get("resourceVersion") != ""
	if resumes && f.likelihood.Load() > 0 && rand.IntN(3) == 0 {
		if err := f.delay(r.Context(), rand.N(1500*time.Millisecond)); err != nil {
			return nil, err
		}
		if rand.IntN(4) == 0 {
			f.counts.add("fault: watch refused", 1)
			return failure(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), nil
		}
		f.counts.add("fault: watch expired", 1)
		return failure(r, http.StatusGone, metav1.StatusReasonExpired), nil
	}
	answer, err := send()
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	w := &cuttable{ReadCloser: answer.Body, path: r.URL.Path}
	w.onClose = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watches, w)
	}
	f.mu.Lock()
	f.watches[w] = struct{}{}
	f.mu.Unlock()
	answer.Body = w
	return answer, nil
}

// cut ends the watches whose path is picked.
func (f *faults) cut(pick func(path string) bool) {
	f.mu.Lock()
	var picked []*cuttable
	for w := range f.watches {
		if pick(w.path) {
			picked = append(picked, w)
		}
	}
	f.mu.Unlock()
	for _, w := range picked {
		f.counts.add("fault: watch cut", 1)
		w.cut()
	}
}

// cuttable is the body of a watch that can be ended from outside.
type cuttable struct {
	io.ReadCloser
	path    string
	onClose func()
	isCut   atomic.Bool
}

func (c *cuttable) cut() {
	c.isCut.Store(true)
	_ = c.ReadCloser.Close()
}

func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.isCut.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *cuttable) Close() error {
	c.onClose()
	return c.ReadCloser.Close()
}

// failure is an API server's response that reports an error.
func failure(r *http.Request, code int, reason metav1.StatusReason) *http.Response {
	body, err := json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  "churn: spoilt",
		Reason:   reason,
		Code:     int32(code),
	})
	if err != nil {
		panic(err) // of a literal
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode:    code,
		Status:        http.StatusText(code),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}

func isBinding(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding")
}

func decodeBinding(body []byte) (*corev1.Binding, error) {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	binding, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, fmt.Errorf("a %T was posted", obj)
	}
	return binding, nil
}
