// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// DefaultLimit is how many pods are bound at the same time. It is not meant to slow anything down:
// an API server that takes 10 milliseconds for a binding binds 6,400 pods a second with it, which
// is more than one with all CPUs at its disposal does. More than 100 requests at a time do not fit
// on a connection (HTTP2MaxStreamsPerConnection of kube-apiserver), and each that is beyond opens
// one of its own, which costs both sides more than the binding.
const DefaultLimit = 64

// Limit bounds how many pods are being bound at the same time. An API server that becomes slow
// would otherwise have every pod that was placed meanwhile at its door, each with a goroutine, a
// connection's stream and a request in memory.
//
// It counts calls of Bind, and the look at a pod after one that failed. What comes before is not
// counted, since it may last for minutes and depend on other pods: a gang whose members wait on
// Permit for each other, and a volume that is provisioned in PreBind, hold up nobody. So a Bind
// plugin must not wait for the Bind of another pod.
//
// Those that wait go on in the order in which they came. When four times as many wait as are being
// bound, the scheduling loop takes a rest (AwaitRoom): what it decided now would have to wait all
// the same, with a goroutine each, and a more important pod that comes later would have to wait for
// it. Safe for concurrent use.
type Limit struct {
	places chan struct{}

	mu sync.Mutex // guards waiting
	// waiting is how many wait for a place. fewer is signalled when it falls.
	waiting int
	fewer   sync.Cond
}

// NewLimit returns a limit of n, which must be positive.
func NewLimit(n int) *Limit {
	l := &Limit{places: make(chan struct{}, n)}
	l.fewer.L = &l.mu
	return l
}

// Crowded says that so many pods are being bound that what can wait should not compete with them:
// more than a quarter of what the limit allows.
func (l *Limit) Crowded() bool { return len(l.places)*4 > cap(l.places) }

// ahead is how many pods may wait for each place before the loop takes a rest: enough for it to be
// elsewhere, or without a CPU, for a tenth of a second.
const ahead = 4

// full says that the loop may take a rest. Requires mu.
func (l *Limit) full() bool { return l.waiting >= ahead*cap(l.places) }

// AwaitRoom returns when so few pods wait for a place that more should be decided about, or ctx has
// ended.
func (l *Limit) AwaitRoom(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.full() {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fewer.Broadcast()
	})
	defer stop()
	for l.full() && ctx.Err() == nil {
		l.fewer.Wait()
	}
}

// enter waits for a place, and returns what gives it back. The error is that of ctx, which ended
// first.
func (l *Limit) enter(ctx context.Context) (leave func(), err error) {
	select {
	case l.places <- struct{}{}:
	default:
		if err := l.wait(ctx); err != nil {
			return nil, err
		}
	}
	running := metrics.BindCalls.WithLabelValues(metrics.BindCallRunning)
	running.Inc()
	return func() {
		running.Dec()
		<-l.places
	}, nil
}

func (l *Limit) wait(ctx context.Context) error {
	l.count(1)
	defer l.count(-1)
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// count notes that one more or fewer waits for a place.
func (l *Limit) count(delta int) {
	metrics.BindCalls.WithLabelValues(metrics.BindCallWaiting).Add(float64(delta))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting += delta
	if delta < 0 {
		l.fewer.Broadcast()
	}
}

// attempt has the pod bound when its turn has come, and finds out what became of it if that failed.
func (b *Binder) attempt(ctx context.Context, c *Cycle) (*fwk.Status, outcome) {
	leave, err := b.Limit.enter(ctx)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("waiting to be bound: %w", err)), unbound
	}
	defer leave()
	status := c.assign(ctx)
	if status.IsSuccess() {
		return nil, boundHere
	}
	return status, b.look(ctx, c)
}
