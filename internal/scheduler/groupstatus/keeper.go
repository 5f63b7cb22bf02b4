// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package groupstatus keeps the status of scheduler-plugins' PodGroups, as the controller of that
// project does: the phase, and how many pods run, have succeeded and have failed.
//
//	PodGroups           --\
//	pods with the label --- queue, 100 ms --> status.next --> merge patch, if it changes
//	                                          (phase.go)      something (round.go)
//
// The informers of the scheduler have no pods that have ended. So a Keeper has one of its own
// (members.go), which begins when there is a PodGroup for the first time.
package groupstatus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// workers write the statuses of different groups at the same time.
	workers = 2
	// settle is the time from the first change of a group or its pods until they are looked at.
	settle = 100 * time.Millisecond
	// interval is the least time between two writes of the status of one group: the kubelets report
	// the pods of a large group over a while.
	interval = time.Second
	// maxRetry is the most time before a failed write is repeated. It begins with interval.
	maxRetry = time.Minute
	// writeTimeout is the most that a write takes.
	writeTimeout = 10 * time.Second
)

// Config configures a Keeper. All fields are required.
type Config struct {
	// Pods lists and watches pods. Groups patches PodGroups.
	Pods   clientset.Interface
	Groups dynamic.Interface
	// Informer is that of the PodGroups, as unstructured objects. It is empty while the API server
	// does not serve them.
	Informer toolscache.SharedIndexInformer
	// Scheduled reports whether this scheduler schedules pods with a scheduler name. If it changes,
	// call Recheck.
	Scheduled func(schedulerName string) bool
}

// Keeper keeps the status of all PodGroups, but those whose pods all belong to other schedulers: a
// group is left to whoever schedules it. A group without pods belongs to everybody.
//
// The handler of PodGroups, Recheck and Run may be called from different goroutines. A nil Keeper
// keeps no status.
type Keeper struct {
	cfg     Config
	recheck chan struct{} // asks Run to look at all groups again
	// enqueue is how the handler of PodGroups reports a key, nil while Run does not run.
	enqueue atomic.Pointer[func(key string)]
}

// New returns a Keeper that does nothing until Run. The Keeper has a handler of PodGroups until the
// informer's scope is closed.
func New(cfg Config) (*Keeper, error) {
	k := &Keeper{cfg: cfg, recheck: make(chan struct{}, 1)}
	_, err := cfg.Informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: k.changed, UpdateFunc: func(_, object any) { k.changed(object) }, DeleteFunc: k.changed,
	})
	if err != nil {
		return nil, fmt.Errorf("adding the handler of PodGroups: %w", err)
	}
	return k, nil
}

func (k *Keeper) changed(object any) {
	enqueue := k.enqueue.Load()
	if enqueue == nil {
		return
	}
	if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		(*enqueue)(key)
	}
}

// Recheck lets Run look at all groups again. It may be called from any goroutine, and never waits.
func (k *Keeper) Recheck() {
	if k == nil {
		return
	}
	select {
	case k.recheck <- struct{}{}:
	default:
	}
}

// Run keeps the statuses until ctx ends. Only the leader may run it. All of its goroutines have
// ended when it returns. It must not be called twice at the same time.
func (k *Keeper) Run(ctx context.Context) error {
	if k == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan struct{})
	var once sync.Once
	r := &round{
		Config: k.cfg, earliest: map[string]time.Time{}, queue: workqueue.NewTypedDelayingQueue[string](),
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[string](interval, maxRetry),
	}
	defer r.queue.ShutDown()
	enqueue := func(key string) {
		once.Do(func() { close(first) })
		r.enqueue(key)
	}
	// In this order: an object that the list lacks is reported to the handler afterwards.
	k.enqueue.Store(&enqueue)
	defer k.enqueue.Store(nil)
	all := func() {
		for _, key := range k.cfg.Informer.GetStore().ListKeys() {
			enqueue(key)
		}
	}
	all()
	select {
	case <-first:
	case <-ctx.Done():
		return nil
	}
	factory, pods, err := newMembers(k.cfg.Pods, r.enqueue)
	if err != nil {
		return fmt.Errorf("creating the informer of the pods of groups: %w", err)
	}
	r.pods = pods
	factory.StartWithContext(ctx)
	defer func() { cancel(); factory.Shutdown() }()
	if factory.WaitForCacheSyncWithContext(ctx).Err != nil {
		return nil // ctx has ended
	}
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for r.keepNext(ctx) {
			}
		})
	}
	for {
		select {
		case <-k.recheck:
			all()
		case <-ctx.Done():
			r.queue.ShutDown()
			working.Wait()
			return nil
		}
	}
}
