// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrImpersonation means that livesched was not asked, because the user impersonates another one.
var ErrImpersonation = errors.New(
	"livesched does not support impersonation (--as): it answers the user who sends the request")

// ErrNoReplica means that livesched was not asked, because no pod of it was found and no URL is
// set.
var ErrNoReplica = errors.New("no pod of livesched runs")

// unverifiedError means that a replica was not asked because it cannot be verified.
type unverifiedError struct {
	from string
	err  error
}

func (e *unverifiedError) Error() string {
	return fmt.Sprintf("%s cannot be verified, so your credentials were not sent: %v", e.from, e.err)
}

func (e *unverifiedError) Unwrap() error { return e.err }

// unreachableError means that a replica did not answer.
type unreachableError struct {
	from string
	err  error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("%s cannot be reached: %v", e.from, e.err)
}

func (e *unreachableError) Unwrap() error { return e.err }

// tryNext reports whether another replica may answer although one failed to.
func tryNext(err error) bool {
	var unverified *unverifiedError
	var unreachable *unreachableError
	switch {
	case errors.As(err, &unreachable):
		return !apierrors.IsForbidden(err) // to forward ports, which holds for all pods
	case errors.As(err, &unverified):
		return true
	default:
		return apierrors.IsServiceUnavailable(err)
	}
}

// describe adds to an error what the user can do.
func describe(err error, from string) error {
	var certificate *tls.CertificateVerificationError
	var sending *url.Error
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &certificate):
		return &unverifiedError{from: from, err: certificate.Err}
	case errors.As(err, &sending):
		return &unreachableError{from: from, err: sending.Err}
	case !errors.As(err, &status):
		return fmt.Errorf("asking %s: %w", from, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s does not accept your credentials: %w", from, err)
	case tooOld(status.Status()):
		return fmt.Errorf("%s cannot answer this: it is older than this plugin", from)
	case apierrors.IsForbidden(err):
		return WithRole(err)
	}
	return err
}

// tooOld reports whether an answer comes from a livesched that does not have the resource. Such a
// livesched does not answer with a Status, but takes the path for one without a resource.
func tooOld(status metav1.Status) bool {
	if status.Code != http.StatusNotFound && status.Code != http.StatusForbidden || status.Details == nil {
		return false
	}
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}
