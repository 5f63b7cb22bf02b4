// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxWaiting limits the simulations that wait while one runs.
const maxWaiting = 2

// turnstile lets one simulation run at a time, with a few that wait for it. Any goroutine may use
// it; its channels are its only state.
type turnstile struct {
	// present holds one item for each simulation that runs or waits, and running one for the one
	// that runs.
	present, running chan struct{}
}

func newTurnstile() *turnstile {
	return &turnstile{present: make(chan struct{}, 1+maxWaiting), running: make(chan struct{}, 1)}
}

// enter waits for the turn of a simulation, which must call leave at its end.
func (t *turnstile) enter(ctx context.Context) (leave func(), err error) {
	select {
	case t.present <- struct{}{}:
	default:
		return nil, apierrors.NewTooManyRequests("another simulation is running, and others wait for it", retryAfter)
	}
	select {
	case t.running <- struct{}{}:
		return func() { <-t.running; <-t.present }, nil
	case <-ctx.Done():
		<-t.present
		return nil, context.Cause(ctx)
	}
}
