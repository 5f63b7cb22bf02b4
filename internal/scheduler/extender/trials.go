// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"sync"
)

// trials are the calls that try open circuits of an extender. Each has a goroutine, so that the
// scheduling loop does not wait for an extender that hangs. Its circuits admit one trial at a time
// for each verb. Any goroutine may use it.
type trials struct {
	ctx    context.Context // of the goroutines, until stop
	cancel context.CancelFunc

	mu      sync.Mutex // guards stopped, and that nothing starts after it
	stopped bool
	running sync.WaitGroup
}

func newTrials() *trials {
	ctx, cancel := context.WithCancel(context.Background())
	return &trials{ctx: ctx, cancel: cancel}
}

// start calls f in a goroutine, with a context that ends with stop. It returns false after stop.
func (t *trials) start(f func(ctx context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.running.Go(func() { f(t.ctx) })
	return true
}

// stop cuts off the trials, and waits until they have ended.
func (t *trials) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
}
