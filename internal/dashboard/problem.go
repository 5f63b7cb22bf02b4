// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// problem is why something cannot be shown. It is shown in its place.
type problem struct {
	Status int
	Title  string
	Text   string
	// Retried means that the next poll may succeed.
	Retried bool
}

// titles are what the statuses of errors mean for a reader.
var titles = map[int]string{
	http.StatusBadRequest:         "livesched does not accept these values.",
	http.StatusUnauthorized:       "You are not signed in.",
	http.StatusForbidden:          "You may not see this.",
	http.StatusNotFound:           "Not found.",
	http.StatusTooManyRequests:    "livesched is busy.",
	http.StatusServiceUnavailable: "livesched cannot answer now.",
	http.StatusGatewayTimeout:     "livesched did not answer in time.",
}

// problemOf returns what to show for an error.
func problemOf(err error) *problem {
	p := &problem{Status: http.StatusInternalServerError, Title: "livesched failed to answer.", Text: err.Error()}
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		if code := int(status.Status().Code); code >= 400 && code < 600 {
			p.Status = code
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		p.Status, p.Text = http.StatusGatewayTimeout, ""
	}
	if title, known := titles[p.Status]; known {
		p.Title = title
	}
	p.Retried = p.Status == http.StatusTooManyRequests || p.Status >= 500
	return p
}

// failed returns the page that has nothing but a problem.
func failed(p *problem) answer {
	return answer{status: p.Status, page: "problem", title: p.Title, data: p}
}

func notFound(text string) answer {
	return failed(&problem{Status: http.StatusNotFound, Title: titles[http.StatusNotFound], Text: text})
}

// part is the data of a part of a page. If there is a problem, the data has what the request asked
// for and no more.
type part[T any] struct {
	Data    T
	Problem *problem
}

// partOf returns a part, with the problem if there is an error.
func partOf[T any](data T, err error) part[T] {
	p := part[T]{Data: data}
	if err != nil {
		p.Problem = problemOf(err)
	}
	return p
}
