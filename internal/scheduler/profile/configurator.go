// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/extender"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// DefaultBuildTimeout bounds one build, the first list of informers that no profile needed before
// included.
const DefaultBuildTimeout = 30 * time.Second

// syncGrace is how long a build whose time is up has to say which informers it waited for.
const syncGrace = time.Second

// stageSync is the stage in which a build waits for nothing but informers, the plugins having had
// their turn.
const stageSync = "waiting for informers"

// Configurator builds profiles, off the scheduling loop. Build is safe for concurrent use; its
// callers keep to one build at a time as long as that one does not hang (see package controllers),
// since plugins may take it for granted that no two of them are made at once, as kube-scheduler
// does it.
//
// Goroutines: each build runs on one of its own, to which the profile belongs until that has
// reported. Build waits for it. If it hangs, Build takes back what the build was lent and leaves
// the goroutine to itself, to close the plugins whenever their constructor returns.
type Configurator struct {
	// Env is what the built profiles share.
	Env *Environment
	// Timeout bounds one build. 0 means DefaultBuildTimeout.
	Timeout time.Duration
	// Clock tells when the time of a build is up, and when one was complete.
	Clock clock.Clock

	// hanging are the builds that were cut off and have not come back.
	hanging hangingBuilds
}

// Build makes a generation of a profile: plugin instances from their factories, their extension
// points, queueing hints, informers synced and event sources delivering. It changes nothing that
// runs.
//
// A build that fails, panics or does not end within the timeout leaves nothing behind; one that
// hangs in a plugin's constructor is cut off, and what it made is closed whenever the constructor
// returns. Until then builds of the same revision fail at once, but for a few (see hangingBuilds).
// ctx bounds the build and lends the plugins its values, its logger above all; how long the profile
// lives is up to its holders alone.
func (c *Configurator) Build(ctx context.Context, cfg *config.Profile) (*Instance, error) {
	if err := c.hanging.check(cfg, c.Clock.Now()); err != nil {
		return nil, err
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultBuildTimeout
	}
	b := newBuild(ctx, c, cfg)
	waiting, stopWaiting := context.WithCancelCause(ctx)
	timer := c.Clock.NewTimer(timeout)
	defer timer.Stop()

	done := make(chan error, 1)
	logger := klog.FromContext(ctx)
	go func() {
		defer stopWaiting(nil) // after it has sent: a cancelled context alone does not tell who won
		done <- b.guardedRun(waiting, logger)
	}()

	ended, err := true, error(nil)
	select {
	case err = <-done:
	case <-timer.C():
		stopWaiting(fmt.Errorf("the build did not end within %v", timeout))
		ended, err = b.lastWord(done)
	case <-waiting.Done():
		ended, err = b.lastWord(done)
	}
	if !ended {
		cutOff := fmt.Errorf("cut off while %s: %w", b.stage.Load(), context.Cause(waiting))
		c.hanging.add(cfg, cutOff, c.Clock.Now(), timeout)
		b.profile.scope.Close()
		b.profile.cancel()
		go func() {
			err := <-done
			c.hanging.remove(cfg)
			logger.V(2).Info("A build that was cut off has come back", "err", err)
			b.profile.close(logger)
		}()
		return nil, cutOff
	}
	if err != nil {
		b.abandon(logger)
		return nil, err
	}
	return b.finish(), nil
}

// lastWord returns what a build whose time is up has to say for itself. One that waits for
// informers knows which; it is told of the end by its context, so its answer is worth a moment. One
// that is in a plugin's hands may never return.
func (b *build) lastWord(done <-chan error) (ended bool, err error) {
	grace := time.Duration(0)
	if b.stage.Load() == stageSync {
		grace = syncGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return true, err
	default:
	}
	select {
	case err := <-done:
		return true, err
	case <-timer.C:
		return false, nil
	}
}

// build is one build under way. Its profile belongs to the building goroutine until that has
// reported.
type build struct {
	*Configurator
	ctx     context.Context
	cfg     *config.Profile
	profile *Instance
	stage   stage
}

func newBuild(ctx context.Context, c *Configurator, cfg *config.Profile) *build {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	logger := klog.FromContext(ctx)
	scope := c.Env.Informers.NewForeignScope(func(p informers.HandlerPanic) { reportHandlerPanic(logger, cfg.SchedulerName, p) })
	c.Env.series.use(cfg.SchedulerName)
	p := &Instance{
		Config: cfg,
		handle: &Handle{
			env:           c.Env,
			informers:     scope,
			parallelizer:  framework.NewParallelizer(int(cfg.Parallelism)),
			recorder:      c.Env.Recorder(cfg.SchedulerName),
			schedulerName: cfg.SchedulerName,
		},
		instances: map[string]fwk.Plugin{},
		scope:     scope,
		release:   func() {},
		cancel:    cancel,
		closed:    make(chan struct{}),
	}
	return &build{Configurator: c, ctx: ctx, cfg: cfg, profile: p}
}

// guardedRun is run, for plugins that panic where nobody expects a call into them to do more than
// return a name.
func (b *build) guardedRun(waiting context.Context, logger klog.Logger) error {
	var failure error
	if err := guard(logger, func() error {
		failure = b.run(waiting)
		return nil
	}); err != nil {
		return fmt.Errorf("%s: %w", b.stage.Load(), err)
	}
	return failure
}

// run does the work. waiting is the build's own deadline, not the lifetime of what is built.
func (b *build) run(waiting context.Context) error {
	b.stage.Store("making the extenders")
	if err := b.makeExtenders(); err != nil {
		return err
	}
	if err := b.instantiate(waiting); err != nil {
		return err
	}
	b.stage.Store("expanding the extension points")
	p := b.profile
	plugins, err := framework.Expand(b.cfg.Config.Plugins, p.instances)
	if err != nil {
		return err
	}
	p.plugins = plugins
	p.Framework = framework.New(framework.Config{
		ProfileName:     b.cfg.SchedulerName,
		Plugins:         plugins,
		Args:            b.args(),
		CheckAllFilters: b.cfg.CheckAllFilters,
		Snapshot:        b.Env.Snapshot,
		Parallelizer:    p.handle.parallelizer,
		Nominator:       b.Env.Queue,
		WaitingPods:     b.Env.WaitingPods,
		PodsInPreBind:   b.Env.PodsInPreBind,
		Recorder:        b.Env.Metrics,
	})
	p.handle.Framework = p.Framework
	p.fastPath = b.newFastPath()

	b.stage.Store("asking the plugins for their cluster events")
	table, err := hints(b.ctx, b.enqueueExtensions(plugins))
	if err != nil {
		return err
	}
	p.Queue = &queue.ProfileSettings{
		PreEnqueue:         plugins.PreEnqueue,
		Hints:              table,
		InitialBackoff:     b.cfg.PodInitialBackoff,
		MaxBackoff:         b.cfg.PodMaxBackoff,
		MaxInUnschedulable: b.cfg.PodMaxInUnschedulablePods,
	}

	b.stage.Store(stageSync)
	if err := p.scope.WaitForSync(waiting); err != nil {
		return fmt.Errorf("waiting for the informers of the plugins: %w", err)
	}
	release, err := b.Env.EventSources.Require(waiting, resources(table))
	if err != nil {
		return fmt.Errorf("waiting for the cluster events of the plugins: %w", err)
	}
	p.release = release
	return nil
}

// newFastPath returns how the fast path treats the plugins. Without a snapshot of the fast path's
// it has no trackers of topology domains.
func (b *build) newFastPath() *fastpath.Plan {
	cfg := fastpath.PlanConfig{Framework: b.profile.Framework, Features: features(), Closed: b.profile.closed}
	if snapshot, ok := b.Env.Snapshot.(*cache.Snapshot); ok {
		cfg.Snapshot, cfg.Informers = snapshot, b.profile.handle.SharedInformerFactory()
	}
	return fastpath.NewPlan(cfg)
}

// makeExtenders comes before the plugins, which may ask for them when they are built.
func (b *build) makeExtenders() error {
	for i := range b.cfg.Extenders {
		e, err := extender.New(&b.cfg.Extenders[i])
		if err != nil {
			return err
		}
		b.profile.extenders = append(b.profile.extenders, e)
	}
	// Plugins call them without a context: the calls are bounded by their timeouts alone.
	b.profile.handle.extenders = extender.Bound(context.WithoutCancel(b.ctx), b.profile.extenders)
	return nil
}

// enqueueExtensions are those of the plugins and, where there are extenders, one that has any event
// wake the pods that extenders refused: those cannot say what would help.
func (b *build) enqueueExtensions(plugins *framework.Plugins) []fwk.EnqueueExtensions {
	extensions := plugins.EnqueueExtensions()
	if len(b.profile.extenders) > 0 {
		extensions = append(extensions, framework.DefaultEnqueueExtensions(schedframework.ExtenderName))
	}
	return extensions
}

// args are the arguments of the plugins by name.
func (b *build) args() map[string]runtime.Object {
	args := make(map[string]runtime.Object, len(b.cfg.Config.PluginConfig))
	for _, pc := range b.cfg.Config.PluginConfig {
		args[pc.Name] = pc.Args
	}
	return args
}

// instantiate builds the plugins in the order of their names, so that two builds of one
// configuration do the same.
func (b *build) instantiate(waiting context.Context) error {
	args := b.args()
	defer func() {
		b.profile.scope.SetOwner(unknownPlugin)
		b.profile.scope.IgnoreHandlers(false)
	}()
	for _, name := range slices.Sorted(maps.Keys(framework.Needed(b.cfg.Config.Plugins))) {
		if waiting.Err() != nil {
			return context.Cause(waiting)
		}
		b.stage.Store(fmt.Sprintf("building plugin %q", name))
		factory, ok := b.Env.Registry[name]
		if !ok {
			return fmt.Errorf("plugin %q is not registered", name)
		}
		b.profile.scope.SetOwner(name)
		b.profile.scope.IgnoreHandlers(replacesListeners(name))
		err := guard(klog.FromContext(b.ctx), func() error {
			plugin, err := factory(b.ctx, args[name], b.profile.handle)
			if err == nil && plugin == nil {
				err = errors.New("the factory returned no plugin")
			}
			if err == nil {
				b.profile.instances[name] = b.Env.Durable.adopt(plugin, args[name], b.profile.handle)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("initializing plugin %q: %w", name, err)
		}
	}
	return nil
}

// finish hands the profile over with one reference, which is the Store's.
func (b *build) finish() *Instance {
	b.profile.Built = b.Clock.Now()
	b.profile.refs.Store(1)
	return b.profile
}

// abandon closes what a failed build made: in the background, since a plugin that fails to build
// may hang in Close.
func (b *build) abandon(logger klog.Logger) {
	go b.profile.close(logger)
}
