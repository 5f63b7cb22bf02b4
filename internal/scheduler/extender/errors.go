// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
)

// The errors of calls reach conditions and Events of pods, whose readers may have no right to the
// extender, and no reason to trust it. So these errors consist of livesched's words, and of those
// of Go about connections. Nothing that the extender sends is part of them: neither its status
// line, nor its body, nor the names in its certificate. What it sent is in the log, for the
// operator.

// notValid describes an answer that is not HTTP, or not the JSON of an answer.
const notValid = "the answer is not valid"

// problemError is an error about an answer. problem are livesched's words, cause is for the log and
// may quote the answer.
type problemError struct {
	problem, cause string
	// said means that the extender works, and answered with an error.
	said bool
}

func (p *problemError) Error() string {
	if p.cause == "" {
		return p.problem
	}
	return p.problem + ": " + p.cause
}

// problem returns an error about an answer.
func problem(words string) error { return &problemError{problem: words} }

// quoting returns an error about an answer, with a part of it for the log.
func quoting(words, cause string) error { return &problemError{problem: words, cause: cause} }

// said returns the error for an answer that reports an error.
func said(message string) error {
	return &problemError{problem: "the extender reports an error, which livesched's log has", cause: message,
		said: true}
}

// failed returns the error of a call.
func (e Extender) failed(verb, problem string) error {
	return fmt.Errorf("extender %q, %s: %s", e.name, verb, problem)
}

// words describes the error of a call without anything that the extender sent.
func (e Extender) words(ctx context.Context, err error) string {
	var about *problemError
	var operation *net.OpError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &about):
		return about.problem
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return context.Cause(ctx).Error()
	case timedOut(err):
		return fmt.Sprintf("no answer within %v", e.cfg.Timeout)
	case errors.As(err, &authority):
		return "certificate signed by unknown authority"
	case errors.As(err, &host):
		return "the certificate is not valid for the host"
	case errors.As(err, &certificate):
		return "the certificate is not valid"
	case errors.As(err, &operation):
		return operation.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended before the answer (EOF)"
	}
	return notValid
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// withoutURL removes the URL from an error: the caller names the extender.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		if wrapped.Timeout() && !timedOut(wrapped.Err) {
			return wrapped // only the wrapper knows
		}
		return wrapped.Err
	}
	return err
}

// cut returns at most length bytes of a text.
func cut(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return text[:length] + "…"
}
