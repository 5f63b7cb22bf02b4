// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
)

const (
	// writers is the number of objects that are written at the same time. An object whose writes
	// have taken slowAfter does not count any more, so that writes that hang do not hold up others.
	// There are never more than maxWriters.
	writers    = 8
	maxWriters = 64
	slowAfter  = time.Second

	// firstTimeout bounds the first attempt to store a revision or to write a status. An attempt
	// after a failure may take lastTimeout, longer than the 30 seconds that the API server grants a
	// webhook.
	firstTimeout = 5 * time.Second
	lastTimeout  = 35 * time.Second

	// staleRetry is how long to wait for the cache to receive the version of an object that the API
	// server has. It doubles with each conflict, up to maxStaleRetry.
	staleRetry    = 50 * time.Millisecond
	maxStaleRetry = 10 * time.Second

	// confirmAfter is how long after a write of status the object is compared with what is stored:
	// etcd may have been restored from a backup before informers received the write.
	confirmAfter = time.Minute
)

// reporter writes what passes report: revisions, statuses and Events. It runs beside the
// reconciler, so that changes never wait for writes.
//
//	report (of the latest pass) -> queue of objects that have changed -> write: revision, status,
//	Events, old revisions
//
// Only the latest report is written: an object that changes again before it is written is written
// once. Objects whose spec has changed come first, the latest change before all others. An object
// that cannot be written is retried with a back-off, and delays no other.
//
// When its context ends, the reporter stops at once: requests under way are cut off. The next
// leader compares what runs with what is stored, and so writes the rest.
//
// Goroutines: report and compare may be called by any goroutine; the reconciler's worker and an
// event handler call them. Start runs on one, which starts a goroutine for each object that it
// writes. The queue gives an object to one
// of these at a time, which alone touches the fields of the subject that mu does not guard.
type reporter struct {
	// client reads from the cache and writes statuses.
	client   client.Client
	recorder events.EventRecorder
	archive  *history.Archive
	clock    clock.Clock
	// scheduler has the counts of shadows.
	scheduler Scheduler

	mu sync.Mutex // guards the fields below
	// latest is the report to write, nil before the first.
	latest *report
	// subjects holds the objects of latest.
	subjects map[types.UID]*subject
	// counts are the counts of shadows that were taken last, by resolve.Profile.ID.
	counts map[string]*v1alpha1.ShadowStatus
	// reports counts the reports.
	reports int
	// queue holds the objects to write, in this order. It is nil before Start.
	queue workqueue.TypedRateLimitingInterface[types.UID]
	order *order
}

// subject is an object that has a report.
type subject struct {
	// outlook is the one of the latest report, and priority the one with which it was queued. mu
	// guards both.
	outlook  outlook
	priority int
	// tried is the last generation of a policy that was to be stored, and whether it was. mu guards
	// it, since profiles wait for their policy.
	tried attempt
	// interrupt ends the deletion of old revisions: a newer report does not wait for it. It is nil
	// before the first deletion. mu guards it.
	interrupt context.CancelFunc

	// written is the object as it was last written, until the cache has that version or a later
	// one.
	written client.Object
	// unanswered is the last write of status if it got no response. It may have taken effect.
	unanswered *unanswered
	// confirmAt is when to compare the object with what is stored, zero if it was not written since
	// the last comparison.
	confirmAt time.Time
	// stale is how long the last conflict delayed the next attempt, 0 if the last write succeeded.
	stale time.Duration
}

// attempt is an attempt to store a generation.
type attempt struct {
	generation int64
	failed     bool
}

func newReporter(cfg Config) *reporter {
	return &reporter{client: cfg.Client, recorder: cfg.Recorder, archive: cfg.Archive, clock: cfg.Clock,
		scheduler: cfg.Scheduler,
		subjects:  map[types.UID]*subject{}}
}

// report makes next the report to write. It does not wait for anything.
func (r *reporter) report(next *report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = next
	r.reports++
	for uid := range r.subjects {
		if !next.has(uid) {
			delete(r.subjects, uid)
		}
	}
	r.archive.Keep(next.has)
	if r.queue != nil {
		r.enqueueLocked()
	}
}

// enqueueLocked queues the objects of the latest report whose outlook has changed. The others are
// written already, being written, or waiting for a retry.
func (r *reporter) enqueueLocked() {
	for uid, object := range r.latest.policies {
		r.lookLocked(uid, r.latest.policyOutlook(object), object.Generation != object.Status.ObservedGeneration)
	}
	for uid, object := range r.latest.profiles {
		r.lookLocked(uid, r.latest.profileOutlook(object), object.Generation != object.Status.ObservedGeneration)
	}
}

// compare queues an object that was written, because its status may have changed. A former leader
// may have written it late, after this one.
func (r *reporter) compare(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.subjects[uid]; s != nil && r.queue != nil {
		r.addLocked(uid, s)
	}
}

func (r *reporter) lookLocked(uid types.UID, next outlook, specChanged bool) {
	s := r.subjects[uid]
	if s == nil {
		s = &subject{}
		r.subjects[uid] = s
	}
	if s.outlook == next {
		return
	}
	if s.interrupt != nil {
		s.interrupt()
	}
	s.outlook, s.priority = next, 0
	if specChanged {
		s.priority = r.reports
	}
	r.addLocked(uid, s)
}

func (r *reporter) addLocked(uid types.UID, s *subject) {
	r.order.prefer(uid, s.priority)
	r.queue.Add(uid)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader writes.
func (r *reporter) NeedLeaderElection() bool { return true }

// Start writes reports until ctx ends. The manager calls it when this replica leads.
func (r *reporter) Start(ctx context.Context) error {
	queue := r.open()
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { r.refreshShadows(ctx) })
	// Tokens of the goroutines that write, and of those among them that are not slow.
	all, quick := make(chan struct{}, maxWriters), make(chan struct{}, writers)
	for {
		all <- struct{}{}
		quick <- struct{}{}
		uid, ended := queue.Get()
		if ended {
			return nil
		}
		running.Go(func() {
			release := sync.OnceFunc(func() { <-quick })
			slow := time.AfterFunc(slowAfter, release)
			defer func() {
				queue.Done(uid)
				slow.Stop()
				release()
				<-all
			}()
			r.process(ctx, uid)
		})
	}
}

// open makes the queue, and queues what was reported before.
func (r *reporter) open() workqueue.TypedRateLimitingInterface[types.UID] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = newOrder()
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.UID]{Name: "reports", Queue: r.order})
	r.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[types.UID]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
				workqueue.TypedDelayingQueueConfig[types.UID]{Queue: ordered}),
		},
	)
	if r.latest != nil {
		r.enqueueLocked()
	}
	return r.queue
}

// process writes the latest report of one object.
func (r *reporter) process(ctx context.Context, uid types.UID) {
	r.mu.Lock()
	latest, s, queue := r.latest, r.subjects[uid], r.queue
	var seen outlook
	if s != nil {
		seen = s.outlook
	}
	r.mu.Unlock()
	if s == nil {
		queue.Forget(uid) // it was deleted
		return
	}
	w := &write{reporter: r, report: latest, subject: s, outlook: seen, timeout: firstTimeout}
	if queue.NumRequeues(uid) > 0 {
		w.timeout = lastTimeout
	}
	unconfirmed := w.confirm(ctx, uid)
	var err error
	if object := latest.policies[uid]; object != nil {
		err = w.policy(ctx, object)
	} else if object := latest.profiles[uid]; object != nil {
		err = w.profile(ctx, object)
	}
	if err == nil {
		err = unconfirmed
	}
	switch {
	case ctx.Err() != nil: // the next leader writes it
	case apierrors.IsConflict(err):
		s.stale = min(max(2*s.stale, staleRetry), maxStaleRetry)
		queue.AddAfter(uid, s.stale)
	case err != nil:
		queue.AddRateLimited(uid)
	default:
		s.stale = 0
		queue.Forget(uid)
		if !s.confirmAt.IsZero() {
			queue.AddAfter(uid, s.confirmAt.Sub(r.clock.Now()))
		}
	}
}

// awaitsPolicy reports whether a profile has to wait until storing its policy was attempted: the
// revision of the profile names the policy's. Then the profile is queued.
func (r *reporter) awaitsPolicy(latest *report, profile *running) bool {
	good := profile.config.Source.Policy
	if good == nil || latest.policies[good.UID] == nil {
		return false
	}
	current := latest.goodPolicy(latest.policies[good.UID])
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.subjects[good.UID]
	return current != nil && s != nil && s.tried.generation != current.Generation
}

// triedPolicy records an attempt to store a policy, and queues the profiles that wait for it or
// whose revision has to name another one now. They may be newer than the report that was written.
func (r *reporter) triedPolicy(s *subject, object *v1alpha1.SchedulingPolicy, now attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.tried == now {
		return
	}
	s.tried = now
	for _, running := range r.latest.running {
		policy := running.config.Source.Policy
		if policy == nil || policy.UID != object.UID {
			continue
		}
		if waits := r.subjects[running.config.UID]; waits != nil {
			r.addLocked(running.config.UID, waits)
		}
	}
}
