// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/answers"
	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/canary"
	"github.com/livesched/livesched/internal/scheduler/catchup"
	"github.com/livesched/livesched/internal/scheduler/debugger"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/eventhandlers"
	"github.com/livesched/livesched/internal/scheduler/eventwriter"
	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/groupcondition"
	"github.com/livesched/livesched/internal/scheduler/load"
	"github.com/livesched/livesched/internal/scheduler/loop"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/shadow"
)

// Parts are the parts of a Scheduler whose cache and queue have seen the first list of every
// resource. They do not change.
type Parts struct {
	// Pods lists all pods that have not ended, from the informers.
	Pods corev1listers.PodLister
	// Cache and Queue must only be read by others.
	Cache *cache.Cache
	Queue *queue.Queue
	// Answers answers questions about the scheduler.
	Answers *answers.Answers
	// Debugger compares cache and queue with the API server.
	Debugger *debugger.Debugger

	events   *eventwriter.Writer
	statuses *podstatus.Writer
	groups   *groupcondition.Writer
	failures *failure.Handler
	env      *profile.Environment
	builder  *profile.Builder
	pending  *eventhandlers.Pending
	// groupScope has the informer of PodGroups, without which livesched works, too.
	groupScope *informers.Scope
	loop       *loop.Loop
	shadows    *shadow.Comparer
	canaries   *canary.Watch
	load       *load.Recorder
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
func (s *Scheduler) assembleWhenAnswered(ctx context.Context) (*Parts, *informers.Scope, error) {
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
			klog.FromContext(ctx).Info("Waiting for the API server to answer which kinds it serves", "err",
				unanswered.Error())
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
func (s *Scheduler) assemble(ctx context.Context, scope *informers.Scope) (*Parts, error) {
	cfg := &s.cfg
	metrics := schedmetrics.NewMetricsAsyncRecorder(1000, time.Second, ctx.Done())
	p := &Parts{Pods: scope.Core().V1().Pods().Lister(), Cache: cache.New()}
	groups := podgroup.NewRegistry()
	p.Queue = queue.New(queue.Config{Clock: cfg.Clock, PodLister: p.Pods, Groups: groups, Metrics: metrics,
		DeferredResizes: deferredResizes()})
	limit := binding.NewLimit(cmp.Or(cfg.MaxConcurrentBinds, binding.DefaultLimit))

	p.events = eventwriter.New(eventwriter.Config{
		Sink: eventwriter.NewSink(cfg.EventClient.EventsV1()),
		// Pods that wait to be scheduled or bound come before Events.
		Busy: func() bool { return p.Queue.Counts().Active > 0 || limit.Crowded() },
	})
	p.statuses = failure.NewStatusWriter(cfg.Client, p.Pods, p.Cache, p.Queue)
	decisions := decisionlog.New(cfg.DecisionLogSize)
	p.failures = &failure.Handler{
		Queue: p.Queue, Pods: p.Pods, Statuses: p.statuses, Recorder: p.events.NewRecorder, Decisions: decisions,
		Term: cfg.Term,
	}

	snapshot := cache.NewSnapshot()
	readOnly := profile.ReadOnly(cfg.KubeConfig)
	reading, err := clientset.NewForConfig(readOnly)
	if err != nil {
		return nil, fmt.Errorf("creating the client that only reads: %w", err)
	}
	sources := eventhandlers.NewSources(cfg.Informers, p.Queue)
	env, err := profile.NewEnvironment(ctx, profile.Dependencies{
		Registry:      cfg.Registry,
		Client:        cfg.Client,
		KubeConfig:    cfg.KubeConfig,
		ReadingClient: reading,
		ReadingConfig: readOnly,
		Informers:     cfg.Informers,
		Scope:         scope,
		Cache:         p.Cache,
		Snapshot:      snapshot,
		Queue:         p.Queue,
		Nominator:     p.Queue.Nominator(),
		Groups:        groups,
		WaitingPods:   framework.NewWaitingPods(),
		PodsInPreBind: framework.NewPodsInPreBind(),
		Recorder:      p.events.NewRecorder,
		Clock:         cfg.Clock,
		EventSources:  sources,
		Metrics:       metrics,
		Term:          cfg.Term,
	})
	if err != nil {
		return nil, err
	}
	p.env = env
	p.builder = profile.NewBuilder(env, cfg.BuildTimeout, cfg.Clock)
	p.shadows = shadow.New(shadow.Config{
		Profiles: s.store, Snapshot: snapshot, FastPath: cfg.FastPath != FastPathOff, Memory: cfg.FastPathMemory,
		DeferredResizes: deferredResizes(), Groups: groups, Clock: cfg.Clock,
	})
	p.canaries = canary.NewWatch(s.store.Current, groups)
	p.load = load.NewRecorder(load.Config{
		Gatherer: legacyregistry.DefaultGatherer, Counts: p.Queue.Counts, Profiles: s.store.Current, Clock: cfg.Clock,
	})
	p.Answers = s.newAnswers(p, groups, decisions)
	p.Debugger = &debugger.Debugger{
		Client: cfg.Client, Cache: p.Cache, Queue: p.Queue, WaitingPods: env.WaitingPods, Devices: env.Devices,
		Profiles: s.store, Leading: &s.leading, Clock: cfg.Clock,
	}
	if err := sources.ListenToDevices(env.Devices, env.PodsInPreBind); err != nil {
		return nil, err
	}
	p.groupScope = cfg.Informers.NewScope()
	context.AfterFunc(ctx, p.groupScope.Close)
	native, err := eventhandlers.ListenToGroups(p.groupScope, groups, p.Queue)
	if err == nil && utilfeature.DefaultFeatureGate.Enabled(features.CompositePodGroup) {
		err = eventhandlers.ListenToComposites(p.groupScope, groups, p.Queue)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDiscovery, err)
	}
	p.groups = groupcondition.NewWriter(cfg.Client.CoreV1().RESTClient(), native)
	if p.pending, err = eventhandlers.Listen(scope, p.Cache, p.Queue, env.WaitingPods, env.PodsInPreBind,
		groups); err != nil {
		return nil, err
	}
	names, err := metadata.NewForConfig(cfg.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("creating the client for metadata: %w", err)
	}
	p.latest = catchup.Config{
		Client: cfg.Client, Metadata: names, Informer: scope.Core().V1().Pods().Informer(), Pods: p.Pods,
		Cache:  p.Cache,
		Claims: env.Devices,
	}
	p.loop = &loop.Loop{
		Queue:           p.Queue,
		Profiles:        s.store,
		Cache:           p.Cache,
		Snapshot:        snapshot,
		Groups:          groups,
		GroupConditions: p.groups,
		Decider:         newDecider(snapshot, cfg.FastPath, cfg.FastPathMemory),
		Binder: &binding.Binder{
			Client:        cfg.Client,
			Cache:         p.Cache,
			Queue:         p.Queue,
			PodsInPreBind: env.PodsInPreBind,
			Limit:         limit,
			AnnounceAfter: binding.DefaultAnnounceAfter,
			Failures:      p.failures,
			Groups:        groups,
			Claims:        env.Devices,
			Term:          cfg.Term,
		},
		Failures:  p.failures,
		Statuses:  p.statuses,
		Heartbeat: &s.heartbeat,
		Clock:     cfg.Clock,
		Decisions: decisions,
		Shadows:   p.shadows,
		Canaries:  p.canaries,
	}
	return p, nil
}

// awaitGroups waits for the PodGroups, if the API server serves them.
func (p *Parts) awaitGroups(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, groupPatience)
	defer cancel()
	if err := p.groupScope.WaitForSync(waiting); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "The PodGroups cannot be listed; their pods wait until they can, or are "+
			"scheduled one by one if livesched may not list them")
	}
}

// newAnswers returns what answers questions about the parts, with forks whose client does not
// write.
func (s *Scheduler) newAnswers(p *Parts, groups *podgroup.Registry,
	decisions *decisionlog.Log) *answers.Answers {
	cfg := &s.cfg
	forker := fork.NewForker(fork.Config{
		Cache: p.Cache, Nominator: p.Queue.Nominator(), Environment: p.env, Profiles: s.store, Groups: groups,
		Client: p.env.ReadingClient, KubeConfig: p.env.ReadingConfig,
		FastPath: cfg.FastPath != FastPathOff,
	})
	replica, _ := os.Hostname() // the name of the pod; without it, the replica has no name
	return &answers.Answers{
		Cache: p.Cache, Queue: p.Queue, WaitingPods: p.env.WaitingPods, Groups: groups, Profiles: s.store,
		Forker: forker,
		Log:    decisions, Leading: &s.leading, FastPath: string(cfg.FastPath), Clock: cfg.Clock,
		Informers: cfg.Informers, Pods: p.Pods, Client: cfg.Client, Objects: cfg.Objects,
		Registered: sets.KeySet(cfg.Registry), AllowedHosts: cfg.AllowedHosts,
		Load: p.load, Replica: replica, Started: s.started,
	}
}

// newDecider returns what decides, with or without a fast path.
func newDecider(snapshot *cache.Snapshot, path FastPath, maxBytes int) *algorithm.Decider {
	cfg := algorithm.Config{Snapshot: snapshot, Verify: path == FastPathVerify, DeferredResizes: deferredResizes()}
	if path != FastPathOff {
		cfg.Engine = fastpath.New(snapshot, maxBytes)
	}
	return algorithm.New(cfg)
}

// deferredResizes reports whether room is made for deferred resizes (KEP 5836).
func deferredResizes() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.InPlacePodVerticalScalingSchedulerPreemption)
}

// stop takes no more pods. Pods that wait on Permit could wait for longer than the process lives,
// so they are left to the next leader. Bindings in progress continue. Start and Run both call stop,
// because either context may end first: a manager stops the parts that run on every replica before
// those that run on the leader, and pods in flight hold the profiles that Start closes.
func (p *Parts) stop() {
	p.failures.Stop()
	p.Queue.Close()
	p.env.WaitingPods.Stop()
	p.events.FlushNow()
}

// closeWriters writes the statuses and Events that have not been written yet, until ctx ends.
func (p *Parts) closeWriters(ctx context.Context) {
	p.statuses.Close(ctx)
	p.groups.Close(ctx)
	p.events.Close(ctx)
}
