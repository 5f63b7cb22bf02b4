// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/catchup"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/eventhandlers"
	"github.com/livesched/livesched/internal/scheduler/eventwriter"
	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/groupcondition"
	"github.com/livesched/livesched/internal/scheduler/groupstatus"
	"github.com/livesched/livesched/internal/scheduler/loop"
	ownmetrics "github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// parts holds the parts of a Scheduler that has started. They do not change.
type parts struct {
	pods     corev1listers.PodLister
	cache    *cache.Cache
	queue    *queue.Queue
	events   *eventwriter.Writer
	statuses *podstatus.Writer
	groups   *groupcondition.Writer
	// groupStatus is nil if somebody else keeps the status of PodGroups.
	groupStatus *groupstatus.Keeper
	failures    *failure.Handler
	env         *profile.Environment
	builder     *profile.Builder
	pending     *eventhandlers.Pending
	// groupScope has the informer of PodGroups, without which livesched works, too.
	groupScope *informers.Scope
	loop       *loop.Loop
	// uncount removes the queue from the metric of pending groups.
	uncount func()
	forker  *fork.Forker
	// latest is what a new leader compares before it schedules.
	latest catchup.Config
}

// errDiscovery means that the API server did not answer whether it serves PodGroups.
var errDiscovery = errors.New("asking for the kinds PodGroup failed")

// groupPatience is how long the start waits for the PodGroups, which livesched may not be allowed
// to list.
const groupPatience = 10 * time.Second

// assembleRetry is the time between attempts to assemble the parts while the API server does not
// answer.
const assembleRetry = time.Second

// assembleWhenAnswered creates the parts, and the scope of their informers. It tries again while
// the API server does not answer which kinds it serves: to exit would not help in an outage. A kind
// that is not served is an answer (see informers.Scope.Missing). It returns nil parts and no error
// if ctx ends first.
func (s *Scheduler) assembleWhenAnswered(ctx context.Context) (*parts, *informers.Scope, error) {
	waiting := false
	for {
		attempt, cancel := context.WithCancel(ctx)
		scope := s.cfg.Informers.NewScope()
		p, err := s.assemble(attempt, scope)
		unanswered := scope.Err()
		if errors.Is(err, errDiscovery) {
			unanswered = err
		}
		if err == nil && unanswered == nil {
			context.AfterFunc(ctx, cancel) // the parts end with ctx
			return p, scope, nil
		}
		scope.Close()
		cancel()
		if unanswered == nil {
			return nil, nil, err
		}
		if !waiting {
			klog.FromContext(ctx).Info("Waiting for the API server to answer which kinds it serves", "err", unanswered.Error())
			waiting = true
		}
		select {
		case <-s.cfg.Clock.After(assembleRetry):
		case <-ctx.Done():
			return nil, nil, nil
		}
	}
}

// assemble creates the parts, bottom-up: each gets the ones before it. The scope must outlive them,
// and must have synced before they are used.
func (s *Scheduler) assemble(ctx context.Context, scope *informers.Scope) (*parts, error) {
	cfg := &s.cfg
	metrics := schedmetrics.NewMetricsAsyncRecorder(1000, time.Second, ctx.Done())
	p := &parts{pods: scope.Core().V1().Pods().Lister(), cache: cache.New()}
	groups := podgroup.NewRegistry()
	p.queue = queue.New(queue.Config{Clock: cfg.Clock, PodLister: p.pods, Groups: groups, Metrics: metrics})
	limit := binding.NewLimit(cmp.Or(cfg.MaxConcurrentBinds, binding.DefaultLimit))

	p.events = eventwriter.New(eventwriter.Config{
		Sink: eventwriter.NewSink(cfg.EventClient.EventsV1()),
		// Pods that wait to be scheduled or bound come before Events.
		Busy: func() bool { return p.queue.ActivePods() > 0 || limit.Crowded() },
	})
	p.statuses = failure.NewStatusWriter(cfg.Client, p.pods, p.cache, p.queue)
	decisions := decisionlog.New(cfg.DecisionLogSize)
	p.failures = failure.NewHandler(p.queue, p.pods, p.statuses, p.events.NewRecorder, decisions, cfg.Term)

	snapshot := cache.NewSnapshot()
	sources := eventhandlers.NewSources(cfg.Informers, p.queue)
	env, err := profile.NewEnvironment(ctx, profile.Dependencies{
		Registry:      cfg.Registry,
		Client:        cfg.Client,
		KubeConfig:    cfg.KubeConfig,
		Informers:     cfg.Informers,
		Scope:         scope,
		Snapshot:      snapshot,
		Queue:         p.queue,
		WaitingPods:   framework.NewWaitingPods(),
		PodsInPreBind: framework.NewPodsInPreBind(),
		Recorder:      p.events.NewRecorder,
		EventSources:  sources,
		Metrics:       metrics,
	})
	if err != nil {
		return nil, err
	}
	p.env = env
	p.builder = profile.NewBuilder(env, cfg.BuildTimeout, cfg.Clock)
	if p.forker, err = newForker(p, groups, s.store, cfg); err != nil {
		return nil, err
	}
	if err := sources.ListenToDevices(env.Devices); err != nil {
		return nil, err
	}
	p.groupScope = cfg.Informers.NewScope()
	context.AfterFunc(ctx, p.groupScope.Close)
	if err := eventhandlers.ListenToGroups(p.groupScope, groups, p.queue); err != nil {
		return nil, fmt.Errorf("%w: %w", errDiscovery, err)
	}
	p.groups = groupcondition.NewWriter(cfg.Client, p.groupScope.Scheduling().V1alpha2().PodGroups().Lister())
	if p.groupStatus, err = newGroupStatus(p.groupScope, s.store, cfg); err != nil {
		return nil, err
	}
	if p.pending, err = eventhandlers.Listen(scope, p.cache, p.queue, env.WaitingPods, env.PodsInPreBind, groups); err != nil {
		return nil, err
	}
	names, err := metadata.NewForConfig(cfg.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("creating the client for metadata: %w", err)
	}
	p.latest = catchup.Config{
		Client: cfg.Client, Metadata: names, Informer: scope.Core().V1().Pods().Informer(), Pods: p.pods, Cache: p.cache,
		Claims: env.Devices,
	}
	p.loop = &loop.Loop{
		Queue:           p.queue,
		Profiles:        s.store,
		Cache:           p.cache,
		Snapshot:        snapshot,
		Groups:          groups,
		GroupConditions: p.groups,
		Algorithm:       newAlgorithm(snapshot, cfg.FastPath, cfg.FastPathMemory),
		Binder: &binding.Binder{
			Client:        cfg.Client,
			Cache:         p.cache,
			Queue:         p.queue,
			PodsInPreBind: env.PodsInPreBind,
			Limit:         limit,
			Failures:      p.failures,
			Groups:        groups,
			Term:          cfg.Term,
		},
		Failures:  p.failures,
		Statuses:  p.statuses,
		Heartbeat: &s.heartbeat,
		Clock:     cfg.Clock,
		Decisions: decisions,
	}
	p.uncount = ownmetrics.AddPendingGroups(p.queue.PendingGroups)
	return p, nil
}

// awaitGroups waits for the PodGroups, if the API server serves them.
func (p *parts) awaitGroups(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, groupPatience)
	defer cancel()
	if err := p.groupScope.WaitForSync(waiting); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "The PodGroups cannot be listed; their pods are scheduled one by one until they can")
	}
}

// newGroupStatus returns what keeps the status of scheduler-plugins' PodGroups, nil if it is off.
func newGroupStatus(scope *informers.Scope, store *profile.Store, cfg *Config) (*groupstatus.Keeper, error) {
	if !cfg.PodGroupStatus {
		return nil, nil
	}
	informer, err := scope.Dynamic(podgroup.Resource)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDiscovery, err)
	}
	client, err := dynamic.NewForConfig(cfg.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("creating the client for PodGroups: %w", err)
	}
	return groupstatus.New(groupstatus.Config{
		Pods: cfg.Client, Groups: client, Informer: informer,
		Scheduled: func(schedulerName string) bool { return store.Current().Get(schedulerName) != nil },
	})
}

// newForker returns what makes forks of the parts, with a client that does not write.
func newForker(p *parts, groups *podgroup.Registry, store *profile.Store, cfg *Config) (*fork.Forker, error) {
	readOnly := fork.ReadOnly(cfg.KubeConfig)
	client, err := clientset.NewForConfig(readOnly)
	if err != nil {
		return nil, fmt.Errorf("creating the client that only reads: %w", err)
	}
	return fork.NewForker(fork.Config{
		Cache: p.cache, Nominator: p.queue.Nominator(), Environment: p.env, Profiles: store, Groups: groups, Client: client, KubeConfig: readOnly,
		FastPath: cfg.FastPath != FastPathOff,
	}), nil
}

// newAlgorithm returns the algorithm, with or without a fast path.
func newAlgorithm(snapshot *cache.Snapshot, path FastPath, maxBytes int) *algorithm.Scheduler {
	cfg := algorithm.Config{Snapshot: snapshot, Verify: path == FastPathVerify}
	if path != FastPathOff {
		cfg.Engine = fastpath.New(snapshot, maxBytes)
	}
	return algorithm.New(cfg)
}

// stop takes no more pods. Pods that wait on Permit could wait for longer than the process lives,
// so they are left to the next leader. Bindings in progress continue. Start and Run both call stop,
// because either context may end first: a manager stops the parts that run on every replica before
// those that run on the leader, and pods in flight hold the profiles that Start closes.
func (p *parts) stop() {
	p.failures.Stop()
	p.uncount()
	p.queue.Close()
	p.env.WaitingPods.Stop()
	p.events.FlushNow()
}

// closeWriters writes the statuses and Events that have not been written yet, until ctx ends.
func (p *parts) closeWriters(ctx context.Context) {
	p.statuses.Close(ctx)
	p.groups.Close(ctx)
	p.events.Close(ctx)
}
