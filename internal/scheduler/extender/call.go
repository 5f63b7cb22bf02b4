// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/timing"
)

const (
	// answerBase, answerFactor and answerPerNode bound an answer by what was asked: an extender
	// sends back at most the nodes that it received, in its own formatting of JSON and with fields
	// that livesched did not send, and a reason for each.
	answerBase    = 1 << 20
	answerFactor  = 4
	answerPerNode = 64 << 10
	// drained bounds the bytes that are read after an answer, so that its connection can be reused.
	drained = 64 << 10
	// maxHeader bounds the headers of an answer.
	maxHeader = 64 << 10
	// maxQuoted bounds what the log quotes of an answer.
	maxQuoted = 1 << 10
)

// question is one call of a verb.
type question struct {
	verb string
	args any
	// nodes is the number of nodes that the question is about.
	nodes int
	// read reads the answer. It must keep no more than what the question asked about.
	read func(*json.Decoder) error
}

// ask calls the extender, unless its circuit breaker is open. An error names the extender and the
// verb, in words of livesched. The log has the cause.
func (e Extender) ask(q question) error {
	circuit := e.circuits[q.verb]
	admitted, probe := circuit.admit(time.Now())
	if probe && q.verb != e.cfg.BindVerb { // binding has an effect, and no other pod waits for it
		e.probeInBackground(circuit, q)
		admitted = false
	}
	if !admitted {
		return e.failed(q.verb, "not called, since its last calls failed; livesched tries it again from time to time")
	}
	ctx, cancel := withinBudget(e.ctx)
	defer cancel()
	body, err := json.Marshal(q.args)
	if err != nil {
		circuit.conclude(time.Now(), 0, probe, unknown)
		return e.failed(q.verb, e.words(ctx, err))
	}
	err = e.post(ctx, q, body, circuit, probe)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lease.ErrOver): // what follows depends on it
		return fmt.Errorf("extender %q, %s: %w", e.name, q.verb, lease.ErrOver)
	}
	return e.failed(q.verb, e.words(ctx, err))
}

// probeInBackground makes a call whose answer is not used, to see whether the extender works again.
func (e Extender) probeInBackground(circuit *circuit, q question) {
	body, err := json.Marshal(q.args) // here, since the caller may go on to change them
	started := err == nil && e.probes.start(func(ctx context.Context) {
		q.read = skip
		ctx = klog.NewContext(ctx, klog.FromContext(e.ctx))
		_ = e.post(ctx, q, body, circuit, true) // the circuit has counted it, and the log has it
	})
	if !started {
		circuit.conclude(time.Now(), 0, true, unknown)
	}
}

// post sends a question, tells the circuit and the scheduling cycle how that went, and logs errors.
func (e Extender) post(ctx context.Context, q question, body []byte, circuit *circuit, probe bool) error {
	start := time.Now()
	err := e.exchange(ctx, q, body)
	took := time.Since(start)
	timing.From(ctx).Add(timing.Part{Step: timing.Extender, Extender: e.name, Verb: q.verb}, took)
	circuit.conclude(time.Now(), took, probe, verdictOf(ctx, err))
	if err != nil {
		klog.FromContext(ctx).Info("A call of an extender failed", "extender", e.name, "verb", q.verb, "duration", took,
			"err", cut(err.Error(), maxQuoted))
	}
	return err
}

// exchange sends a question and reads the answer.
func (e Extender) exchange(ctx context.Context, q question, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.prefix+"/"+q.verb, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if e.closed.Load() {
		defer e.client.CloseIdleConnections()
	}
	response, err := e.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	//nolint:errcheck // only read so that the connection can be reused
	defer io.CopyN(io.Discard, response.Body, drained)
	if response.StatusCode != http.StatusOK {
		return statusError(response)
	}
	return decode(response.Body, answerBase+answerFactor*int64(len(body))+answerPerNode*int64(q.nodes), q.read)
}

// statusError returns the error for a status other than 200. Redirects are among these: an extender
// must not choose what livesched connects to.
func statusError(response *http.Response) error {
	problem := fmt.Sprintf("the answer has status %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		problem += ", and redirects are not followed"
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxQuoted)) // only for the log
	return &problemError{problem: problem, cause: fmt.Sprintf("status %q, body %q", response.Status, body)}
}
