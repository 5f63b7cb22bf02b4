// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler is the scheduling loop and what feeds it. It is the only package that sees all
// the others:
//
//	informer events --> cache, queue                              events.go, sources.go
//	queue.Pop --> Store.Popped --> cache.UpdateSnapshot
//	          --> algorithm.Schedule --> assume, reserve, permit  cycle.go
//	          --> binding, in a goroutine that keeps the profile  ../binding
//	          --> or failure: condition, Event, back to the queue failure.go
//	profile.Store.Swap --> queue.Reconfigure                      apply.go
//
// Everything but the loop runs on every replica, so that a new leader starts with a warm cache and
// queue.
package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientset "k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/eventwriter"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

const (
	// bindingGrace is how long a scheduler that is told to stop waits for the bindings under way.
	bindingGrace = 4 * time.Second
	// closeGrace is how long it waits for the profiles to close, which those bindings hold.
	closeGrace = bindingGrace + time.Second
	// writeGrace is how long it then goes on to write statuses and Events, and writesEnd when that
	// ends in any case, counted from when it was told to stop. The next leader waits for that.
	writeGrace = 3 * time.Second
	writesEnd  = closeGrace + 1500*time.Millisecond
)

// FastPath says how decisions may be made. Whatever it says, they are the same ones.
type FastPath string

const (
	// FastPathOn keeps what plugins say of nodes and asks again only where something has changed.
	FastPathOn FastPath = "on"
	// FastPathOff asks every plugin about every node for every pod.
	FastPathOff FastPath = "off"
	// FastPathVerify does both, and counts and logs what comes out differently.
	FastPathVerify FastPath = "verify"
)

// Config is what a Scheduler is made of. All fields but Clock, FastPath, MaxConcurrentBinds and
// BuildTimeout are required.
type Config struct {
	// Client is for bindings, pod status and what plugins do. KubeConfig is what it was built from.
	Client     clientset.Interface
	KubeConfig *rest.Config
	// EventClient writes Events. It has a rate limit of its own, so that a flood of Events does not
	// hold up bindings.
	EventClient clientset.Interface
	// Informers is the manager's cache as client-go informers. The manager must be running when
	// Start is called.
	Informers *informers.Source
	// Registry holds all plugins that profiles may name.
	Registry framework.Registry
	// Clock is the real one by default.
	Clock clock.WithTickerAndDelayedExecution
	// FastPath says whether decisions may be made on the fast path. Empty is FastPathOn.
	FastPath FastPath
	// MaxConcurrentBinds is how many pods are bound at the same time. 0 means binding.DefaultLimit.
	MaxConcurrentBinds int
	// BuildTimeout bounds the build of one profile. 0 means profile.DefaultBuildTimeout.
	BuildTimeout time.Duration
}

// Scheduler schedules pods by the profiles in its Store.
//
// Goroutines: Start runs on one for the life of the process; Run on another while this replica
// leads; informers call the handlers on theirs; each binding cycle has its own. The loop's
// goroutine alone touches snapshot and algorithm.
type Scheduler struct {
	cfg    Config
	client clientset.Interface
	clock  clock.WithTickerAndDelayedExecution
	store  *profile.Store

	// The fields below are set by Start before ready is closed, and not changed afterwards.
	ready     chan struct{}
	cache     *cache.Cache
	snapshot  *cache.Snapshot
	queue     *queue.Queue
	algorithm *algorithm.Scheduler
	binder    *binding.Binder
	env       *profile.Environment
	builder   *profile.Builder
	pods      corev1listers.PodLister
	events    *eventwriter.Writer
	statuses  *podstatus.Writer
	pending   *pendingPods

	// leading says that the loop runs on this replica: only the leader speaks to users through
	// Events.
	leading atomic.Bool
	// stopping says that the loop has been told to end.
	stopping  atomic.Bool
	heartbeat heartbeat
	probe     probe
	bindings  sync.WaitGroup
	// bindingContext outlives the loop by bindingGrace. Set by Run before the first cycle.
	bindingContext context.Context
}

// New returns a Scheduler that does nothing until Start.
func New(cfg Config) *Scheduler {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	s := &Scheduler{cfg: cfg, client: cfg.Client, clock: cfg.Clock, ready: make(chan struct{})}
	s.store = profile.NewStore()
	return s
}

// Store holds the profiles that schedule pods. Swap changes them.
func (s *Scheduler) Store() *profile.Store { return s.store }

// Ready is closed when cache and queue have seen the first list of everything.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Leading says whether this replica schedules.
func (s *Scheduler) Leading() bool { return s.leading.Load() }

// Pods reads all pods that have not ended from the informers. Ready must be closed.
func (s *Scheduler) Pods() corev1listers.PodLister { return s.pods }

// StartBuild begins to build an instance of a profile, to be swapped in through the Store. Ready must
// be closed. See profile.Builder.
func (s *Scheduler) StartBuild(ctx context.Context, cfg *config.Profile) *profile.Build {
	return s.builder.Start(ctx, cfg)
}

// Start fills cache and queue and keeps them up to date until ctx ends. The manager's cache must be
// running.
func (s *Scheduler) Start(ctx context.Context) error {
	schedmetrics.Register()
	s.events = eventwriter.New(eventwriter.Config{Sink: eventwriter.NewSink(s.cfg.EventClient.EventsV1()), Busy: s.busy})
	s.events.Start(ctx)
	s.statuses = s.newStatusWriter()
	s.statuses.Start(ctx)
	var told time.Time // to stop
	defer func() { s.closeWriters(ctx, told) }()

	scope := s.cfg.Informers.NewScope()
	defer scope.Close()
	sources := newEventSources(s.cfg.Informers, s.moveAll)
	if err := s.assemble(ctx, scope, sources); err != nil {
		return err
	}
	if err := s.listen(scope); err != nil {
		return fmt.Errorf("adding event handlers: %w", err)
	}
	if err := scope.WaitForSync(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("waiting for the informers: %w", err)
	}
	klog.FromContext(ctx).Info("Cache and queue are warm", "nodes", s.cache.Size().Nodes)
	close(s.ready)
	var running sync.WaitGroup
	running.Go(func() { s.cache.Run(ctx) })
	s.queue.Run(ctx)
	told = s.clock.Now()
	s.stop()
	running.Wait()

	closing, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), closeGrace, errors.New("the profiles did not close in time"))
	defer cancel()
	err := s.store.Close(closing)
	s.env.Durable.Close(closing)
	return err
}

// assemble creates the parts, bottom-up.
func (s *Scheduler) assemble(ctx context.Context, scope *informers.Scope, sources *eventSources) error {
	recorder := schedmetrics.NewMetricsAsyncRecorder(1000, time.Second, ctx.Done())
	s.pods = scope.Core().V1().Pods().Lister()
	s.cache = cache.New()
	s.snapshot = cache.NewSnapshot()
	s.queue = queue.New(queue.Config{Clock: s.clock, PodLister: s.pods, Metrics: recorder})
	s.algorithm = s.newAlgorithm()
	s.env = &profile.Environment{
		Registry:      s.cfg.Registry,
		Client:        s.client,
		KubeConfig:    s.cfg.KubeConfig,
		Informers:     s.cfg.Informers,
		Snapshot:      s.snapshot,
		Queue:         s.queue,
		WaitingPods:   framework.NewWaitingPods(),
		PodsInPreBind: framework.NewPodsInPreBind(),
		Recorder:      s.events.NewRecorder,
		EventSources:  sources,
		Metrics:       recorder,
	}
	if err := s.shareDevices(ctx, scope, sources); err != nil {
		return err
	}
	durable, err := profile.NewDurable(ctx, s.env, scope)
	if err != nil {
		return err
	}
	s.env.Durable = durable
	s.builder = profile.NewBuilder(s.env, s.cfg.BuildTimeout, s.clock)
	s.binder = &binding.Binder{
		Cache:            s.cache,
		Queue:            s.queue,
		PodsInPreBind:    s.env.PodsInPreBind,
		SetNominatedNode: s.setNominatedNode,
		Limit:            binding.NewLimit(cmp.Or(s.cfg.MaxConcurrentBinds, binding.DefaultLimit)),
		Read:             s.readPod,
		Failed:           s.bindingFailed,
	}
	return nil
}

// newAlgorithm makes what decides, with or without a fast path.
func (s *Scheduler) newAlgorithm() *algorithm.Scheduler {
	cfg := algorithm.Config{Snapshot: s.snapshot, Verify: s.cfg.FastPath == FastPathVerify}
	if s.cfg.FastPath != FastPathOff {
		cfg.Rows = fastpath.New(s.snapshot, fastpath.DefaultMaxBytes)
	}
	return algorithm.New(cfg)
}

// Run is the scheduling loop. It runs on the leader, until ctx ends; then it lets the bindings
// under way end, for a few seconds at most.
func (s *Scheduler) Run(ctx context.Context) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil
	}
	bindingContext, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.bindingContext = bindingContext
	s.leading.Store(true)
	defer s.leading.Store(false)
	stop := context.AfterFunc(ctx, s.stop)
	defer stop()

	klog.FromContext(ctx).Info("Scheduling")
	for s.scheduleOne(ctx) {
	}
	s.drain(ctx)
	return nil
}

// stop keeps more pods from being taken. Those that wait on Permit could wait for longer than there
// is time: they are left to the next leader. What is being bound goes on. It is called by Start and
// by Run, whichever is told first: a manager ends what runs everywhere before what runs on the
// leader, and the profiles that Start closes are held by the pods under way.
func (s *Scheduler) stop() {
	s.stopping.Store(true)
	s.queue.Close()
	s.env.WaitingPods.Stop()
	s.events.FlushNow()
}

// busy says whether pods wait to be decided or bound, which Events would hold up.
func (s *Scheduler) busy() bool { return s.queue.ActivePods() > 0 || s.binder.Limit.Crowded() }

// closeWriters writes the statuses and Events that have not been written yet, as far as there is
// time. told is when the process was told to stop, zero if it was not.
func (s *Scheduler) closeWriters(ctx context.Context, told time.Time) {
	grace := writeGrace
	if !told.IsZero() {
		grace = min(grace, writesEnd-s.clock.Since(told))
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	s.statuses.Close(closing)
	s.events.Close(closing)
}

// drain waits for the bindings under way.
func (s *Scheduler) drain(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		s.bindings.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-s.clock.After(bindingGrace):
		klog.FromContext(ctx).Info("Stopping with bindings under way", "grace", bindingGrace)
	}
}
