// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/extender"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// stageSync is the stage after the calls of all plugins, in which a build only waits for informers.
const stageSync = "waiting for informers"

// assembly puts one instance together, step by step: see run. It belongs to the build's goroutine;
// other goroutines only call doing and takeBack.
type assembly struct {
	env      *Environment
	cfg      *resolve.Profile
	plugins  *schedconfig.Plugins // those that are enabled and called
	instance *Instance
	stage    atomic.Pointer[string]
}

// newAssembly returns an assembly that has not called any plugin yet. cancel ends the context of
// the plugins.
func newAssembly(logger klog.Logger, cancel context.CancelFunc, env *Environment, cfg *resolve.Profile) *assembly {
	scope := env.Informers.NewForeignScope(func(p informers.HandlerPanic) {
		reportHandlerPanic(logger, cfg.SchedulerName, p)
	})
	env.series.use(cfg.SchedulerName)
	p := &Instance{
		Config: cfg,
		handle: &Handle{
			PodNominator:  env.Nominator,
			PodActivator:  env.Queue,
			env:           env,
			informers:     scope,
			parallelizer:  framework.NewParallelizer(int(cfg.Parallelism)),
			recorder:      env.Recorder(cfg.SchedulerName),
			schedulerName: cfg.SchedulerName,
		},
		instances: map[string]fwk.Plugin{},
		scope:     scope,
		release:   func() {},
		cancel:    cancel,
		closed:    make(chan struct{}),
	}
	a := &assembly{env: env, cfg: cfg, plugins: framework.Without(cfg.Config.Plugins, ofGroups), instance: p}
	a.begin("starting")
	return a
}

// begin records the stage that begins.
func (a *assembly) begin(stage string) { a.stage.Store(&stage) }

// doing returns the stage that the assembly is in, for the error of a build that is cut off.
func (a *assembly) doing() string { return *a.stage.Load() }

// takeBack removes the plugins' event handlers and ends their context.
func (a *assembly) takeBack() {
	a.instance.scope.Close()
	a.instance.cancel()
}

// guardedRun calls run and turns panics into errors. run itself guards only the factories, but
// plugins may panic even in a method that returns their name.
func (a *assembly) guardedRun(ctx, waiting context.Context) error {
	var failure error
	if err := guard(klog.FromContext(ctx), func() error {
		failure = a.run(ctx, waiting)
		return nil
	}); err != nil {
		return fmt.Errorf("%s: %w", a.doing(), err)
	}
	return failure
}

// run assembles the instance, whose plugins live with ctx. When waiting ends, it stops waiting and
// calls no more factories.
func (a *assembly) run(ctx, waiting context.Context) error {
	a.begin("making the extenders")
	if err := a.makeExtenders(ctx); err != nil {
		return err
	}
	if err := a.makePlugins(ctx, waiting); err != nil {
		return err
	}
	a.begin("expanding the extension points")
	if err := a.makeFramework(); err != nil {
		return err
	}
	a.instance.fastPath = a.newFastPath()
	a.begin("asking the plugins for their cluster events")
	if err := a.makeQueueSettings(ctx); err != nil {
		return err
	}
	a.begin(stageSync)
	return a.sync(waiting)
}

// makeExtenders runs before makePlugins: factories may ask the handle for the extenders. Forks and
// shadows have none: extenders may keep what they are asked, and the process shares their circuit
// breakers.
func (a *assembly) makeExtenders(ctx context.Context) error {
	if a.env.breakers == nil {
		return nil
	}
	h := a.instance.handle
	for i := range a.cfg.Extenders {
		e, err := extender.New(&a.cfg.Extenders[i], policyOf(a.cfg), a.env.breakers, a.env.Term)
		if err != nil {
			return err
		}
		h.services = append(h.services, e)
	}
	// The timeouts alone bound the calls of plugins, unless a plugin uses Handle.Within.
	h.extenders = extender.Bound(context.WithoutCancel(ctx), h.services)
	return nil
}

// policyOf returns the policy that a profile with extenders builds on.
func policyOf(cfg *resolve.Profile) extender.Policy {
	policy := extender.Policy{Name: cfg.PolicyName}
	if cfg.Source.Policy != nil {
		policy.UID = cfg.Source.Policy.UID
	}
	return policy
}

// args returns the arguments of the plugins by name.
func (a *assembly) args() map[string]runtime.Object {
	args := make(map[string]runtime.Object, len(a.cfg.Config.PluginConfig))
	for _, pc := range a.cfg.Config.PluginConfig {
		args[pc.Name] = pc.Args
	}
	return args
}

// makePlugins calls the factories in the order of the plugins' names, so that two builds of one
// configuration do the same.
func (a *assembly) makePlugins(ctx, waiting context.Context) error {
	args := a.args()
	defer func() {
		a.instance.scope.SetOwner(unknownPlugin)
		a.instance.scope.IgnoreHandlers(false)
	}()
	for _, name := range slices.Sorted(maps.Keys(framework.Needed(a.plugins))) {
		if waiting.Err() != nil {
			return context.Cause(waiting)
		}
		a.begin(fmt.Sprintf("building plugin %q", name))
		factory, ok := a.env.Registry[name]
		if !ok {
			return fmt.Errorf("plugin %q is not registered", name)
		}
		a.instance.scope.SetOwner(name)
		a.instance.scope.IgnoreHandlers(replacesListeners(name))
		err := guard(klog.FromContext(ctx), func() error {
			plugin, err := factory(ctx, args[name], a.handleFor(name))
			if err == nil && plugin == nil {
				err = errors.New("the factory returned no plugin")
			}
			if err == nil {
				a.instance.instances[name] = a.env.Durable.adopt(plugin, args[name], a.instance.handle)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("initializing plugin %q: %w", name, err)
		}
	}
	return nil
}

// makeFramework expands the extension points and creates the Framework that runs them.
func (a *assembly) makeFramework() error {
	p := a.instance
	plugins, err := framework.Expand(a.plugins, p.instances)
	if err != nil {
		return err
	}
	p.plugins = plugins
	p.Framework = framework.New(framework.Config{
		ProfileName:     a.cfg.SchedulerName,
		Plugins:         plugins,
		Args:            a.args(),
		CheckAllFilters: a.cfg.CheckAllFilters,
		Snapshot:        a.env.Snapshot,
		Parallelizer:    p.handle.parallelizer,
		Nominator:       a.env.Nominator,
		WaitingPods:     a.env.WaitingPods,
		Recorder:        a.env.Metrics,
		Instruments:     a.env.instruments,
	})
	p.handle.Framework = p.Framework
	return nil
}

// newFastPath returns how the fast path treats the plugins.
func (a *assembly) newFastPath() *fastpath.Plan {
	return fastpath.NewPlan(fastpath.PlanConfig{
		Framework: a.instance.Framework,
		Profile:   a.cfg.ID(),
		Snapshot:  a.env.Snapshot,
		Informers: a.instance.handle.SharedInformerFactory(),
		Volumes:   a.env.Durable.volumes.of(a.instance.plugins),
		Features:  features(),
		Devices:   a.env.Devices,
		Closed:    a.instance.closed,
	})
}

// ofGroups are the plugins that only kube-scheduler's cycle for pod groups calls to good effect:
// livesched places groups by itself, as the profiles that enable these plugins ask for.
var ofGroups = sets.New(names.GangScheduling, names.TopologyPlacementGenerator, names.PodGroupPodsCount)

// coscheduling is the plugin of scheduler-plugins that schedules PodGroups. A build of livesched
// may have it: then livesched leaves the groups of the profiles that enable it to the plugin.
const coscheduling = "Coscheduling"

// makeQueueSettings asks the plugins for the cluster events that they wait for.
func (a *assembly) makeQueueSettings(ctx context.Context) error {
	extensions := a.enqueueExtensions()
	table, err := hints(ctx, extensions)
	if err != nil {
		return err
	}
	a.instance.Queue = &queue.ProfileSettings{
		Holder:             a.instance,
		PreEnqueue:         a.instance.plugins.PreEnqueue,
		Hints:              table,
		HintKeys:           hintKeys(extensions),
		IgnorePodGroups:    framework.Needed(a.plugins).Has(coscheduling),
		InitialBackoff:     a.cfg.PodInitialBackoff,
		MaxBackoff:         a.cfg.PodMaxBackoff,
		MaxInUnschedulable: a.cfg.PodMaxInUnschedulablePods,
	}
	return nil
}

// enqueueExtensions returns the EnqueueExtensions of the plugins. If there are extenders, it adds
// one that retries the pods that they rejected after any event, since extenders cannot name the
// events that help.
func (a *assembly) enqueueExtensions() []fwk.EnqueueExtensions {
	extensions := a.instance.plugins.EnqueueExtensions()
	if len(a.instance.handle.extenders) > 0 {
		extensions = append(extensions, framework.DefaultEnqueueExtensions(schedframework.ExtenderName))
	}
	return extensions
}

// sync waits until the plugins' informers have synced and their cluster events are delivered.
func (a *assembly) sync(waiting context.Context) error {
	if err := a.instance.scope.WaitForSync(waiting); err != nil {
		return fmt.Errorf("waiting for the informers of the plugins: %w", err)
	}
	release, err := a.env.EventSources.Require(waiting, resources(a.instance.Queue.Hints))
	if err != nil {
		return fmt.Errorf("waiting for the cluster events of the plugins: %w", err)
	}
	a.instance.release = release
	return nil
}

// finish returns the instance with one reference, which belongs to the Store.
func (a *assembly) finish(built time.Time) *Instance {
	a.instance.Built = built
	a.instance.refs.Store(1)
	return a.instance
}
