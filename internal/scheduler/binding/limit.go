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

// DefaultLimit is how many pods are bound at the same time. The limit does not slow bindings down:
// an API server that takes 10 milliseconds for a binding binds 6,400 pods a second with it, which
// is more than an API server reaches with all CPUs for itself. No more than 100 requests fit on a
// connection (HTTP2MaxStreamsPerConnection of kube-apiserver); each one beyond opens its own
// connection, which costs both sides more than the binding.
const DefaultLimit = 64

// Limit bounds how many pods are being bound at the same time. Otherwise an API server that becomes
// slow would get a request for every pod that is placed, each with a goroutine, a stream of a
// connection, and memory.
//
// It counts calls of Bind, and the reading of a pod after a failed one. It does not count the
// earlier steps, which may last for minutes and depend on other pods: a gang whose members wait on
// Permit for each other, and a volume that is provisioned in PreBind, hold up no other pod. So a
// Bind plugin must not wait for the Bind of another pod.
//
// Waiting pods proceed in the order in which they arrived. While four times as many pods wait as
// are being bound, the scheduling loop pauses (AwaitRoom): further pods would have to wait anyway,
// with a goroutine each, and a more important pod that arrives later would have to wait for them.
//
// The pods of a group arrive all at once. Only as many of them wait in the order as may be bound;
// the others wait outside. So a group of thousands neither stops the loop, nor does a
// more important pod wait for all of it. Safe for concurrent use.
type Limit struct {
	places chan struct{}
	// groups holds the pods of groups that wait in the order.
	groups chan struct{}

	mu sync.Mutex // guards the fields below
	// waiting is the number of pods that wait in the order, and outside of others. fewer is
	// signalled when waiting falls.
	waiting, outside int
	fewer            sync.Cond
}

// NewLimit returns a limit of n, which must be positive.
func NewLimit(n int) *Limit {
	l := &Limit{places: make(chan struct{}, n), groups: make(chan struct{}, n)}
	l.fewer.L = &l.mu
	return l
}

// Crowded reports whether work that can wait should not compete with bindings now: more than a
// quarter of the pods that the limit allows are being bound.
func (l *Limit) Crowded() bool { return len(l.places)*4 > cap(l.places) }

// ahead is how many pods may wait for each place before the loop pauses: enough to keep the places
// filled while the loop is busy, or without a CPU, for a tenth of a second.
const ahead = 4

// maxOutside bounds the goroutines of pods of groups while the API server is slow.
const maxOutside = 10_000

// fullLocked reports whether the loop should pause.
func (l *Limit) fullLocked() bool { return l.waiting >= ahead*cap(l.places) || l.outside >= maxOutside }

// AwaitRoom returns when few enough pods wait for a place to schedule the next one, or ctx has
// ended.
//
// It does not count as hanging in the liveness probe. Calls of Bind that hang lose their place (see
// assignInTime), so it waits for long only while the API server does not answer where the pods are
// whose binding failed. A restart would not help then.
func (l *Limit) AwaitRoom(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.fullLocked() {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fewer.Broadcast()
	})
	defer stop()
	for l.fullLocked() && ctx.Err() == nil {
		l.fewer.Wait()
	}
}

// enter waits for a place, and returns a function that gives it back, however often it is called.
// It returns the cause of ctx if that ends first.
func (l *Limit) enter(ctx context.Context, inGroup bool) (leave func(), err error) {
	if inGroup {
		if err = l.wait(ctx, l.groups, &l.outside); err != nil {
			return nil, err
		}
	}
	err = l.wait(ctx, l.places, &l.waiting)
	if inGroup {
		<-l.groups
	}
	if err != nil {
		return nil, err
	}
	running := metrics.BindCalls.WithLabelValues(metrics.BindCallRunning)
	running.Inc()
	return sync.OnceFunc(func() {
		running.Dec()
		<-l.places
	}), nil
}

// wait waits for a place among some, and is counted meanwhile.
func (l *Limit) wait(ctx context.Context, places chan struct{}, counter *int) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	l.count(counter, 1)
	defer l.count(counter, -1)
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// count records that one more pod, or one fewer, waits.
func (l *Limit) count(counter *int, delta int) {
	metrics.BindCalls.WithLabelValues(metrics.BindCallWaiting).Add(float64(delta))
	l.mu.Lock()
	defer l.mu.Unlock()
	*counter += delta
	if delta < 0 {
		l.fewer.Broadcast()
	}
}

// attempt binds the pod when its turn has come, if this replica still leads. If that fails, it
// verifies where the pod is.
func (b *Binder) attempt(ctx context.Context, c *Cycle) (*fwk.Status, outcome) {
	leave, err := b.Limit.enter(ctx, c.Barrier != nil)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("waiting to be bound: %w", err)), unbound
	}
	defer leave()
	if err := b.Term.Check(); err != nil {
		return fwk.AsStatus(err), unbound
	}
	status := b.assignInTime(ctx, c, leave)
	if status.IsSuccess() {
		return nil, boundHere
	}
	return status, b.verify(ctx, c)
}
