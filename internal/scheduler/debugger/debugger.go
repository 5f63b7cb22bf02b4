// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

const (
	// settle is how long the informers get to catch up before the second comparison.
	settle = 2 * time.Second
	// compareTimeout bounds a comparison: the lists of a large cluster take seconds.
	compareTimeout = 2 * time.Minute
	// queueTimeout is how long the queue may stay locked before the dump is made without it.
	queueTimeout = 10 * time.Second
)

// errQueueLocked is the error of a queue that cannot be read.
var errQueueLocked = fmt.Errorf("the scheduling queue has been locked for %v: a plugin hangs in PreEnqueue, in a "+
	"queueing hint or in the queue sort", queueTimeout)

// Debugger reads the state of the scheduler. All fields but Clock are required. Its methods may be
// called at any time, one after the other, once cache and queue have been filled.
type Debugger struct {
	Client      clientset.Interface
	Cache       *cache.Cache
	Queue       *queue.Queue
	WaitingPods *framework.WaitingPods
	// Devices has the devices that plugins take for allocated.
	Devices *devices.Managers
	// Profiles holds the profiles that schedule pods.
	Profiles *profile.Store
	// Leading is true while this replica schedules.
	Leading *atomic.Bool
	// Clock is the real one by default.
	Clock clock.Clock
}

// Report logs the state of the scheduler, and then how it differs from the API server.
func (d *Debugger) Report(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("debugger")
	state, err := d.state(ctx)
	d.dump(logger, state)
	if err != nil {
		logger.Error(err, "The queue is missing from the dump, and the cache is not compared with the API server")
		return
	}
	differences, err := d.Compare(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		logger.Error(err, "Comparing the cache with the API server failed")
	case len(differences) == 0:
		logger.Info("Cache, queue and devices match the API server")
	default:
		logDifferences(logger, differences)
	}
}

// Compare returns the differences between the API server on one side and cache, queue, nominator
// and allocated devices on the other that exist now and two seconds later: others come from
// informers that lag behind. Without any, it returns immediately.
func (d *Debugger) Compare(ctx context.Context) ([]Difference, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, compareTimeout,
		fmt.Errorf("the comparison did not end within %v", compareTimeout))
	defer cancel()
	before, err := d.compareOnce(ctx)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	select {
	case <-d.clock().After(settle):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	after, err := d.compareOnce(ctx)
	if err != nil {
		return nil, err
	}
	return lasting(before, after), nil
}

func (d *Debugger) compareOnce(ctx context.Context) ([]Difference, error) {
	cluster, err := ReadCluster(ctx, d.Client)
	if err != nil {
		return nil, err
	}
	if d.Devices.DRA != nil {
		if err := cluster.readClaims(ctx, d.Client); err != nil {
			return nil, err
		}
	}
	state, err := d.state(ctx)
	if err != nil {
		return nil, err
	}
	state.Devices = d.Devices.Allocations()
	return Compare(cluster, state), nil
}

// lasting returns the later differences that existed before, even with other details.
func lasting(before, after []Difference) []Difference {
	withoutDetail := func(d Difference) Difference { d.Detail = ""; return d }
	seen := sets.New[Difference]()
	for _, d := range before {
		seen.Insert(withoutDetail(d))
	}
	return slices.DeleteFunc(after, func(d Difference) bool { return !seen.Has(withoutDetail(d)) })
}

// state copies the state of the scheduler. If the queue cannot be read it returns the rest, and an
// error.
func (d *Debugger) state(ctx context.Context) (*State, error) {
	state := &State{Cache: d.Cache.Dump(), Served: sets.New[string](),
		DeferredResizes: d.Queue.DeferredResizes()}
	for p := range d.Profiles.Current().All() {
		state.Served.Insert(p.SchedulerName())
	}
	queued := make(chan []queue.PodState, 1)
	// The queue may be stuck, which may be the reason for the request. The goroutine ends when the
	// queue is free.
	go func() { queued <- d.Queue.Dump() }()
	timeout := d.clock().NewTimer(queueTimeout)
	defer timeout.Stop()
	select {
	case state.Queue = <-queued:
	case <-timeout.C():
		return state, errQueueLocked
	case <-ctx.Done():
		return state, errors.Join(errors.New("reading the scheduling queue"), context.Cause(ctx))
	}
	state.Nominations = d.Queue.Nominator().Dump()
	return state, nil
}

func (d *Debugger) clock() clock.Clock {
	if d.Clock == nil {
		return clock.RealClock{}
	}
	return d.Clock
}
