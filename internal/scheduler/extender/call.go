// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

const (
	// answerBase and answerFactor bound a response: an extender sends back at most the nodes that
	// it received, in its own formatting of JSON, and a reason for each.
	answerBase   = 16 << 20
	answerFactor = 4
	// drained bounds the bytes that are read after a response, so that its connection can be
	// reused.
	drained = 64 << 10
)

// call posts args to a verb and decodes the response into result, a pointer. Errors name the
// extender and the verb.
func (e Extender) call(verb string, args, result any) error {
	if err := e.post(verb, args, result); err != nil {
		return fmt.Errorf("extender %q, %s: %w", e.name, verb, err)
	}
	return nil
}

func (e Extender) post(verb string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.prefix+"/"+verb, bytes.NewReader(body))
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
	defer io.CopyN(io.Discard, response.Body, drained) //nolint:errcheck // only read so that the connection can be reused
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer has status %s", response.Status)
	}
	return decode(response.Body, answerBase+answerFactor*int64(len(body)), result)
}

// decode reads one JSON value that is not longer than the limit, and ignores what follows.
func decode(r io.Reader, limit int64, result any) error {
	bounded := &io.LimitedReader{R: r, N: limit}
	switch err := json.NewDecoder(bounded).Decode(result); {
	case err == nil:
		return nil
	case bounded.N <= 0:
		return fmt.Errorf("the answer is longer than %d bytes", limit)
	case errors.Is(err, io.EOF):
		return errors.New("the answer is empty")
	default:
		return fmt.Errorf("reading the answer: %w", withoutURL(err))
	}
}

// withoutURL removes the URL from an error: the caller names the extender.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
