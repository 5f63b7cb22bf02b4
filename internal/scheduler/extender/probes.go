// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"sync"
)

// probes are the calls that try open circuits of an extender. Each has a goroutine, so that the
// scheduling loop does not wait for an extender that hangs. Its circuits admit one probe at a time
// for each verb. Any goroutine may use it.
type probes struct {
	ctx    context.Context // of the goroutines, until stop
	cancel context.CancelFunc

	mu      sync.Mutex // held so that nothing starts after stop
	running sync.WaitGroup
}

func newProbes() *probes {
	ctx, cancel := context.WithCancel(context.Background())
	return &probes{ctx: ctx, cancel: cancel}
}

// start calls f in a goroutine, with a context that ends with stop. It returns false after stop.
func (p *probes) start(f func(ctx context.Context)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.running.Go(func() { f(p.ctx) })
	return true
}

// stop cuts off the probes, and waits until they have ended.
func (p *probes) stop() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.running.Wait()
}
