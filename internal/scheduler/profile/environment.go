// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/extender"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Environment holds what the instances of all profiles share and no instance owns: the state that
// must outlive a reload, and the process's connections. It is read-only and must not be copied.
// Each of its fields documents its own concurrency.
type Environment struct {
	Dependencies
	// Devices tracks claims, slices, classes and CSINodes, and the assumed state of claims.
	Devices *devices.Managers
	// Durable is the state of upstream's plugins that must survive their instances.
	Durable *Durable

	// breakers are the circuit breakers of extenders. nil: the instances call no extenders.
	breakers *extender.Breakers
	// instruments are the metrics of the calls of plugins. nil: kube-scheduler's metrics. series
	// are the users of their series. nil: they are not deleted.
	instruments *framework.Instruments
	series      *seriesUsers
	// claimCalls bounds the writes of claims for devices. nil: they are not bounded.
	claimCalls claimCalls
	// shadows is the Environment of the instances of shadow profiles. nil: there can be none.
	shadows *Environment
}

// Dependencies holds the parts that an Environment is made of. All but Groups, Clock, Metrics and
// Term are required, apart from those of shadow profiles.
type Dependencies struct {
	// Registry holds the factories of all plugins that a profile may name.
	Registry framework.Registry
	// Client is the plugins' client of the API server. KubeConfig is the configuration from which
	// they may build their own clients.
	Client     clientset.Interface
	KubeConfig *rest.Config
	// ReadingClient and ReadingConfig are the same, but refuse to write: see ReadOnly. They are for
	// the plugins of shadow profiles. nil: no shadow profile can be built.
	ReadingClient clientset.Interface
	ReadingConfig *rest.Config
	// Informers is the only informer layer of the process. Each build gets its own scope.
	Informers *informers.Source
	// Scope is a scope of Informers that lives as long as the Environment.
	Scope *informers.Scope
	// Cache is the cache of pods and nodes. nil: no pods are evicted.
	Cache *cache.Cache
	// Snapshot is the only snapshot of the scheduling loop, refreshed in place: plugins capture the
	// pointer when they are built, so it must not be replaced while any instance lives.
	Snapshot *cache.Snapshot
	// Queue is the only scheduling queue. A plugin of a retired instance may still activate a pod
	// through it, as an asynchronous preemption does when it ends.
	Queue interface {
		fwk.PodActivator
		preemption.Queue
	}
	// Nominator has the nominations of the queue.
	Nominator nominator
	// Groups are the pod groups of the cluster. nil: there are none.
	Groups *podgroup.Registry
	// WaitingPods and PodsInPreBind are shared so that plugins of a new instance can allow, reject
	// or preempt a pod that waits under the old one.
	WaitingPods   *framework.WaitingPods
	PodsInPreBind *framework.PodsInPreBind
	// Recorder returns the event recorder of a scheduler name, whose Events name it as their
	// reporter.
	Recorder func(schedulerName string) events.EventRecorderLogger
	// Clock tells which victims should have ended by now. It defaults to the real clock.
	Clock clock.PassiveClock
	// EventSources delivers cluster events of the resources that plugins ask for.
	EventSources EventSources
	// Metrics records plugin and extension point durations off the scheduling path. May be nil.
	Metrics *schedmetrics.MetricAsyncRecorder
	// Term is the term of this replica as the leader, after which extenders are not called. nil
	// without leader election.
	Term *lease.Term
}

// NewEnvironment returns the Environment of a process. The caller waits for the scope to sync.
func NewEnvironment(ctx context.Context, d Dependencies) (*Environment, error) {
	if d.Clock == nil {
		d.Clock = clock.RealClock{}
	}
	managers, err := devices.NewManagers(ctx, d.Client, d.Scope)
	if err != nil {
		return nil, err
	}
	durable, err := newDurable(ctx, &d)
	if err != nil {
		return nil, err
	}
	if durable.budgets, err = preemption.NewBudgets(d.Scope.Policy().V1().PodDisruptionBudgets()); err != nil {
		return nil, err
	}
	durable.volumes.follow() // now, so that profiles add and leave behind no handlers
	durable.evictor = preemption.NewEvictor(ctx, preemption.Config{
		Client:        d.Client,
		Cache:         d.Cache,
		Queue:         d.Queue,
		Nominator:     d.Nominator,
		WaitingPods:   d.WaitingPods,
		PodsInPreBind: d.PodsInPreBind,
	})
	env := &Environment{
		Dependencies: d, Devices: managers, Durable: durable, breakers: extender.NewBreakers(d.Recorder("livesched")),
		series: &seriesUsers{}, claimCalls: newClaimCalls(),
	}
	if d.ReadingClient != nil {
		env.shadows = env.forShadows()
	}
	return env, nil
}

// forShadows returns the Environment of shadow profiles. Their instances see the same state, and
// change none of it: they call no extenders, move, nominate and evict no pods, and write no Events,
// no metrics of their own and no objects. They share the claims and volumes that are assumed, which
// plugins change only from Reserve on: no shadow comes that far.
func (e *Environment) forShadows() *Environment {
	d := e.Dependencies
	d.Client, d.KubeConfig = d.ReadingClient, d.ReadingConfig
	d.Queue, d.Nominator = NoQueue{}, fixedNominator{d.Nominator}
	d.WaitingPods, d.PodsInPreBind = framework.NewWaitingPods(), framework.NewPodsInPreBind()
	d.Recorder = NewNoEvents
	d.EventSources = NoSources{}
	d.Metrics = nil
	return &Environment{
		Dependencies: d, Devices: e.Devices,
		Durable:     &Durable{binder: e.Durable.binder, volumes: e.Durable.volumes, budgets: e.Durable.budgets},
		instruments: framework.Discarded(),
	}
}

// of returns the Environment of the instances of a profile, which is e unless it is a shadow.
func (e *Environment) of(cfg *resolve.Profile) (*Environment, error) {
	if cfg.Shadow == nil {
		return e, nil
	}
	if e.shadows == nil {
		return nil, errors.New("this process runs no shadow profiles")
	}
	return e.shadows, nil
}

// Fork returns an Environment whose instances decide pods to answer questions, and schedule none:
// they call no extenders, evict no pods and write no metrics. When the scope has synced, the caller
// calls CopyAssumed.
//
// It adds no event handlers: client-go would hold back all events of a kind until every object is
// queued for the new handler, at each question.
func (e *Environment) Fork(ctx context.Context, d Dependencies) (*Environment, error) {
	// The volume binder reads the stores of the informers. By its handlers it only forgets what it
	// assumed of objects that have changed since, which it does not use any more.
	d.Scope.IgnoreHandlers(true)
	durable, err := newDurable(ctx, &d)
	d.Scope.IgnoreHandlers(false)
	if err != nil {
		return nil, err
	}
	// These show the present, as listers do.
	durable.budgets, durable.volumes = e.Durable.budgets, e.Durable.volumes
	return &Environment{Dependencies: d, Devices: e.Devices.Fork(ctx, d.Scope), Durable: durable,
		instruments: framework.Discarded()}, nil
}

// CopyAssumed assumes the volumes in a fork that are assumed in the Environment of the process.
func (e *Environment) CopyAssumed(logger klog.Logger, process *Environment) {
	process.Durable.assumed.assumeAgain(logger, e.Durable)
}

// EventSources turns changes of API objects into cluster events for the queue.
type EventSources interface {
	// Require delivers the events of these resources, and waits until the first list of each has
	// been delivered. The caller calls release when it no longer needs them; the last release
	// removes the handlers. On an error nothing is left behind.
	Require(ctx context.Context, resources []fwk.EventResource) (release func(), err error)
	// Missing returns the kinds of required resources that the API server does not serve.
	Missing(resources []fwk.EventResource) []schema.GroupVersionKind
}
