// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/extender"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// Environment holds what the instances of all profiles share and no instance owns: the state that
// must outlive a reload, and the process's connections. It is read-only and must not be copied.
// Each of its fields documents its own concurrency.
type Environment struct {
	Dependencies
	// Devices tracks claims, slices, classes and CSINodes, and the assumed state of claims.
	Devices *devices.Managers
	// Breakers are the circuit breakers of extenders.
	Breakers *extender.Breakers
	// Durable is the state of upstream's plugins that must survive their instances.
	Durable *Durable

	series seriesUsers
}

// Dependencies holds the parts that an Environment is made of. All but Metrics and ForkOf are
// required.
type Dependencies struct {
	// Registry holds the factories of all plugins that a profile may name.
	Registry framework.Registry
	// Client is the plugins' client of the API server. KubeConfig is the configuration from which
	// they may build their own clients.
	Client     clientset.Interface
	KubeConfig *rest.Config
	// Informers is the only informer layer of the process. Each build gets its own scope.
	Informers *informers.Source
	// Scope is a scope of Informers that lives as long as the Environment.
	Scope *informers.Scope
	// Snapshot is the only snapshot of the scheduling loop, refreshed in place: plugins capture the
	// pointer when they are built, so it must not be replaced while any instance lives.
	Snapshot *cache.Snapshot
	// Queue is the only scheduling queue. A plugin of a retired instance may still activate a pod
	// through it, as an asynchronous preemption does when it ends.
	Queue interface {
		fwk.PodNominator
		fwk.PodActivator
		preemption.Queue
	}
	// WaitingPods and PodsInPreBind are shared so that plugins of a new instance can allow, reject
	// or preempt a pod that waits under the old one.
	WaitingPods   *framework.WaitingPods
	PodsInPreBind *framework.PodsInPreBind
	// Recorder returns the event recorder of a scheduler name, whose Events name it as their
	// reporter.
	Recorder func(schedulerName string) events.EventRecorderLogger
	// EventSources delivers cluster events of the resources that plugins ask for.
	EventSources EventSources
	// Metrics records plugin and extension point durations off the scheduling path. May be nil.
	Metrics *schedmetrics.MetricAsyncRecorder
	// ForkOf makes this the Environment of a fork: pods are decided with its instances to answer a
	// question, and are not scheduled. Its assumed volumes and devices begin with those of ForkOf;
	// see CopyAssumed. Its instances have no extenders and write no metrics. nil: this is the
	// Environment of the process.
	ForkOf *Environment
}

// NewEnvironment returns the Environment of a process or of a fork. The caller waits for the scope
// to sync.
func NewEnvironment(ctx context.Context, d Dependencies) (*Environment, error) {
	managers, err := newManagers(ctx, &d)
	if err != nil {
		return nil, err
	}
	env := &Environment{Dependencies: d, Devices: managers, Breakers: extender.NewBreakers(d.Recorder("livesched"))}
	if env.Durable, err = newDurable(ctx, env, d.Scope); err != nil {
		return nil, err
	}
	return env, nil
}

func newManagers(ctx context.Context, d *Dependencies) (*devices.Managers, error) {
	if d.ForkOf != nil {
		return d.ForkOf.Devices.Fork(ctx, d.Scope)
	}
	return devices.NewManagers(ctx, d.Client, d.Scope)
}

// isFork reports whether this is the Environment of a fork.
func (e *Environment) isFork() bool { return e.ForkOf != nil }

// CopyAssumed assumes the volumes and devices in a fork that are assumed in the Environment which
// it is a fork of. The scope of the fork must have synced.
func (e *Environment) CopyAssumed(logger klog.Logger) {
	e.Devices.CopyAssumed(logger, e.ForkOf.Devices)
	e.ForkOf.Durable.assumed.assumeAgain(logger, e.Durable.binder)
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
