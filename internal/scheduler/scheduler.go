// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler puts a scheduler together from its parts and runs it. Only commands and tests
// import it:
//
//	informers --> eventhandlers --> cache, queue
//	queue.Pop --> loop: snapshot, algorithm, assume, Reserve, Permit
//	          --> binding, in a goroutine that keeps the profile
//	          --> or failure: back to the queue, Event, condition (podstatus)
//	Swap      --> profile.Store --> queue
//	questions --> answers: cache, queue, decision log, forks
//
// Everything but the loop runs on every replica, so that a new leader starts with a warm cache and
// queue.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/catchup"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/loop"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

const (
	// closeGrace is how long a scheduler that stops waits for the profiles to close, which bindings
	// in progress hold.
	closeGrace = loop.BindingGrace + time.Second
	// writeGrace is how long it then writes the remaining statuses and Events. In any case it stops
	// writing when writesEnd has passed since it began to stop: the next leader waits for that.
	writeGrace = 3 * time.Second
	writesEnd  = closeGrace + 1500*time.Millisecond
)

// FastPath selects how decisions are made. All values lead to the same decisions.
type FastPath string

const (
	// FastPathOn reuses the results of plugins for nodes, and calls plugins again only where
	// something has changed.
	FastPathOn FastPath = "on"
	// FastPathOff calls every plugin on every node for every pod.
	FastPathOff FastPath = "off"
	// FastPathVerify does both, and counts and logs the differences.
	FastPathVerify FastPath = "verify"
)

// Config configures a Scheduler. All fields but AllowedHosts, Clock, FastPath, FastPathMemory,
// MaxConcurrentBinds, DecisionLogSize, BuildTimeout and Term are required.
type Config struct {
	// Client is for bindings, pod status and the calls of plugins. KubeConfig is the configuration
	// that it was built from.
	Client     clientset.Interface
	KubeConfig *rest.Config
	// EventClient writes Events. It has its own rate limit, so that a flood of Events does not hold
	// up bindings.
	EventClient clientset.Interface
	// Informers is the manager's cache as client-go informers. The manager must be running when
	// Start is called.
	Informers *informers.Source
	// Registry holds all plugins that profiles may name.
	Registry framework.Registry
	// Objects reads profiles and policies, to answer questions. AllowedHosts are the hosts that
	// extenders may be at.
	Objects      client.Reader
	AllowedHosts resolve.AllowedHosts
	// Clock is the real one by default.
	Clock clock.WithTickerAndDelayedExecution
	// FastPath defaults to FastPathOn.
	FastPath FastPath
	// FastPathMemory limits the memory that the fast path takes, in bytes. 0 means
	// fastpath.DefaultMemoryLimit.
	FastPathMemory int
	// MaxConcurrentBinds is how many pods are bound at the same time. 0 means binding.DefaultLimit.
	MaxConcurrentBinds int
	// DecisionLogSize is the number of decisions that are recorded. 0: none.
	DecisionLogSize int
	// BuildTimeout bounds the build of one profile. 0 means profile.DefaultBuildTimeout.
	BuildTimeout time.Duration
	// Term is the term of this replica as the leader, nil without leader election.
	Term *lease.Term
}

// Scheduler schedules pods by the profiles in its Store.
//
// Goroutines: Start runs on one until the process ends. Run runs on another while this replica
// leads. The worker of the controllers calls StartBuild and Swap.
type Scheduler struct {
	cfg   Config
	store *profile.Store
	// started is when New was called.
	started time.Time

	// ready is closed by Start when parts is set and the informers have synced. See Parts.
	ready chan struct{}
	parts *Parts

	// leading is true while the loop runs on this replica. Only the leader reports dropped pods.
	leading   atomic.Bool
	heartbeat loop.Heartbeat
	probe     probe
}

// New returns a Scheduler that does nothing until Start.
func New(cfg Config) *Scheduler {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Scheduler{cfg: cfg, store: profile.NewStore(), started: cfg.Clock.Now(), ready: make(chan struct{})}
}

// Store returns the Store of the profiles that schedule pods. Swap changes them.
func (s *Scheduler) Store() *profile.Store { return s.store }

// Ready returns a channel that is closed when cache and queue have seen the first list of every
// resource. Then profiles can be built and swapped in.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// errNotListed is the error of what needs the first lists.
var errNotListed = apierrors.NewServiceUnavailable("livesched has not listed the cluster yet")

// Parts returns the parts of a scheduler that is ready. Otherwise the error is an
// apierrors.APIStatus.
func (s *Scheduler) Parts() (*Parts, error) {
	select {
	case <-s.ready:
		return s.parts, nil
	default:
		return nil, errNotListed
	}
}

// Answers implements apiserving.Scheduler.
func (s *Scheduler) Answers() (apiserving.Answers, error) {
	p, err := s.Parts()
	if err != nil {
		return nil, err
	}
	return p.Answers, nil
}

// Report logs the state of the scheduler, and its differences from the API server. It returns when
// that is done, and does not hold up scheduling. Calls must not overlap.
func (s *Scheduler) Report(ctx context.Context) {
	p, err := s.Parts()
	if err != nil {
		klog.FromContext(ctx).Info("There is nothing to dump yet", "reason", err.Error())
		return
	}
	p.Debugger.Report(ctx)
}

// Leading reports whether this replica schedules.
func (s *Scheduler) Leading() bool { return s.leading.Load() }

// StartBuild begins to build an instance of a profile, to be swapped in; see profile.Builder.
func (s *Scheduler) StartBuild(ctx context.Context, cfg *resolve.Profile) *profile.Build {
	return s.parts.builder.Start(ctx, cfg)
}

// Swap makes next the current map, and returns the scheduler names whose profile changed. Pods of
// removed profiles leave the queue, which Events report; the waiting pods of a new profile are
// queued.
func (s *Scheduler) Swap(logger klog.Logger, next *profile.Map) sets.Set[string] {
	change := s.store.Swap(logger, next, s.parts.Queue)
	s.parts.canaries.Prune()
	if s.Leading() {
		for _, pod := range change.Dropped {
			s.parts.failures.Dropped(logger, pod)
		}
	}
	for name := range change.Added {
		s.parts.pending.Enqueue(logger, name)
	}
	return change.Names
}

// ShadowStatus returns how the decisions of a shadow compare with those of the profile that it
// follows, by its resolve.Profile.ID. It returns nil if it was not to make any since it runs.
func (s *Scheduler) ShadowStatus(id string) *v1alpha1.ShadowStatus { return s.parts.shadows.Status(id) }

// Observed returns what was observed of a candidate in the present stage of its roll-out since it
// runs beside the stable revision.
func (s *Scheduler) Observed(candidate *resolve.Profile, stage rollout.Stage) *rollout.Observed {
	seen := &rollout.Observed{}
	switch stage {
	case rollout.Shadow:
		shadow := candidate.AsShadow()
		s.parts.shadows.Observed(shadow.ID(), shadow.Revision, seen)
	case rollout.Canary:
		seen = s.parts.canaries.Observed(candidate.SchedulerName, candidate.Revision)
	}
	return seen
}

// Placement compares where a candidate and the profile that runs under its scheduler name would
// place that profile's pods.
func (s *Scheduler) Placement(ctx context.Context, candidate *resolve.Profile,
	pods int) (*v1alpha1.RolloutPlacement, error) {
	return s.parts.Answers.Placement(ctx, candidate, pods)
}

// Start fills cache and queue and keeps them up to date until ctx ends. The manager's cache must be
// running.
func (s *Scheduler) Start(ctx context.Context) error {
	schedmetrics.Register()
	p, scope, err := s.assembleWhenAnswered(ctx)
	if p == nil {
		return err
	}
	defer metrics.AddPendingGroups(p.Queue.PendingGroups)()
	p.events.Start(ctx)
	p.statuses.Start(ctx)
	p.groups.Start(ctx)
	deadline := time.Time{} // for the writers, once the process stops
	defer func() {
		scope.Close()
		grace := writeGrace
		if !deadline.IsZero() {
			grace = min(grace, deadline.Sub(s.cfg.Clock.Now()))
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		p.closeWriters(closing)
	}()
	if err := scope.WaitForSync(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("waiting for the informers: %w", err)
	}
	p.awaitGroups(ctx)
	klog.FromContext(ctx).Info("Cache and queue are warm", "nodes", p.Cache.Size().Nodes)
	s.parts = p
	close(s.ready)

	var running sync.WaitGroup
	running.Go(func() { p.Cache.Run(ctx) })
	running.Go(func() { s.cfg.Informers.Run(ctx) })
	running.Go(func() { p.load.Run(ctx) })
	p.Queue.Run(ctx)
	deadline = s.cfg.Clock.Now().Add(writesEnd)
	p.stop()
	running.Wait()

	closing, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), closeGrace,
		errors.New("the profiles did not close in time"))
	defer cancel()
	err = s.store.Close(closing)
	p.env.Durable.Close(closing)
	return err
}

// Run waits until the cache has the bindings and resource claims of the last leader, and runs the
// scheduling loop on the leader until ctx ends. Then it waits for the bindings in progress, for a
// few seconds at most.
func (s *Scheduler) Run(ctx context.Context) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil
	}
	s.leading.Store(true)
	defer s.leading.Store(false)
	stop := context.AfterFunc(ctx, s.parts.stop)
	defer stop()

	if err := catchup.Wait(ctx, s.parts.latest); err != nil {
		return nil // the process ends
	}
	klog.FromContext(ctx).Info("Scheduling")
	var reporting sync.WaitGroup
	reporting.Go(func() { s.parts.failures.ReportHeld(ctx, s.cfg.Clock, s.parts.groups) })
	s.parts.loop.Run(ctx)
	reporting.Wait()
	return nil
}
