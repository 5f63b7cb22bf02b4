// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// DefaultLimit is how many pods are bound at the same time. It is not meant to slow anything down: at the default of
// --kube-api-qps, 1000, it is reached when a binding takes longer than half a second on average, and an API server with
// default settings works at no more than 600 requests at once, those of everybody counted.
const DefaultLimit = 500

// Limit bounds how many pods are being bound at the same time. An API server that becomes slow would otherwise have
// every pod that was placed meanwhile at its door, each with a goroutine, a connection's stream and a request in memory.
//
// It counts calls of Bind, and the look at a pod after one that failed. What comes before is not counted, since it may
// last for minutes and depend on other pods: a gang whose members wait on Permit for each other, and a volume that is
// provisioned in PreBind, hold up nobody. So a Bind plugin must not wait for the Bind of another pod.
//
// Those that wait go on in the order in which they came. Safe for concurrent use.
type Limit struct {
	places chan struct{}
}

// NewLimit returns a limit of n, which must be positive.
func NewLimit(n int) *Limit { return &Limit{places: make(chan struct{}, n)} }

// enter waits for a place, and returns what gives it back. The error is that of ctx, which ended first.
func (l *Limit) enter(ctx context.Context) (leave func(), err error) {
	select {
	case l.places <- struct{}{}:
	default:
		if err := l.wait(ctx); err != nil {
			return nil, err
		}
	}
	metrics.BindCalls.WithLabelValues(metrics.BindCallRunning).Inc()
	return func() {
		metrics.BindCalls.WithLabelValues(metrics.BindCallRunning).Dec()
		<-l.places
	}, nil
}

// Crowded says that so many pods are being bound that what can wait should not compete with them: more than a quarter of
// what the limit allows.
func (l *Limit) Crowded() bool { return len(l.places)*4 > cap(l.places) }

func (l *Limit) wait(ctx context.Context) error {
	waiting := metrics.BindCalls.WithLabelValues(metrics.BindCallWaiting)
	waiting.Inc()
	defer waiting.Dec()
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
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
