// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"sync"
	"time"
)

const (
	// maxCalls is how many victims are evicted, and nominations cleared, at the same time. Requests
	// beyond 100 do not fit on the connection to kube-apiserver (HTTP2MaxStreamsPerConnection),
	// which carries the bindings and watches as well. Each one beyond opens a connection of its
	// own, which costs both sides more than the request.
	maxCalls = 32
	// defaultOverdueCall is that of an Evictor.
	defaultOverdueCall = 5 * time.Second
)

// enter waits for a place for calls to the API server, and returns a function that gives it back.
// It returns the cause of ctx if that ends first. Places are given in the order of the calls of
// enter. As an eviction makes no more calls at once than its profile's parallelism allows, a pod
// does not wait for all victims of a large group.
func (e *Evictor) enter(ctx context.Context) (leave func(), err error) {
	select {
	case e.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	free := sync.OnceFunc(func() { <-e.calls })
	timer := time.AfterFunc(e.overdueCall, free)
	return func() {
		timer.Stop()
		free()
	}, nil
}
