// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package profile builds scheduler profiles and swaps them under running scheduling cycles.
//
//	resolve.Profile --Builder.Build--> *Instance --NewMap--> *Map --Store.Swap--> queue, current map
//
// An Instance is a profile as built from one revision: plugin instances, extenders, queue settings
// and the informer handlers they registered. It is immutable once built. The queue acquires it for
// a pod when the pod is popped, and the pod's binding goroutine releases it at the end, so one pod
// sees one instance. When the Store has swapped an instance out and the last pod has released it,
// the instance is closed, once.
//
// Building an instance:
//
//	supervisor.go       Supervisor: runs the builds of the newest revisions, and retries failed ones
//	builder.go          Builder and Build: one build, with its timeout
//	builder_hanging.go  limits the retries of a revision whose builds hang in a plugin
//	assembly.go         the steps of a build: extenders, plugins, framework, queue settings
//	handle.go           Handle: the fwk.Handle that the plugins of an instance get
//	groupclaims.go      PodGroups for the plugin for devices, which reserves claims for them
//	hints.go            the events and queueing hints of the plugins
//
// Running instances:
//
//	profile.go          Instance: what it offers, its references, and how it is closed
//	missing.go          the kinds that an instance uses and the API server does not serve
//	map.go              Map: the instances that schedule pods at one time, and their shadows
//	store.go            Store: swaps the Map, and tracks the instances that still drain
//
// State that outlives an instance:
//
//	environment.go      Environment: what the instances of all profiles share
//	inert.go            what instances get in its place that schedule no pods
//	readonly.go         a client that does not write
//	durable.go          Durable: the volume binder and the preemptions
//	series.go           deletes the metric series of a scheduler name with its last instance
//	panic.go            counts and logs panics in event handlers of plugins
package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/extender"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Instance is a profile as built from one revision.
//
// The build sets all fields before other goroutines see the Instance. Only refs changes afterwards.
type Instance struct {
	// Config is the configuration that the instance was built from. Read-only.
	Config *resolve.Profile
	// Framework runs the plugins.
	Framework *framework.Framework
	// Queue holds the settings of the scheduling queue for this instance, which is their Holder.
	Queue *queue.ProfileSettings
	// Built is when the build ended.
	Built time.Time

	plugins  *framework.Plugins
	handle   *Handle
	fastPath *fastpath.Plan

	// instances are all plugin instances by name, for closing.
	instances map[string]fwk.Plugin
	scope     *informers.Scope
	// release gives back the event sources.
	release func()
	// cancel ends the context that the plugins were built with.
	cancel context.CancelFunc

	// refs counts the holders: one for the Store while the instance is in the current map, one for
	// each pod that is being scheduled, or decided by a shadow. Invariant: once zero it stays zero,
	// and the release that made it zero closes the instance.
	refs atomic.Int64
	// closed is closed after everything that the instance held has been given back.
	closed chan struct{}
}

var _ queue.Holder = &Instance{}

// SchedulerName is the name by which pods ask for this profile, or for the one that it follows.
func (i *Instance) SchedulerName() string { return i.Config.SchedulerName }

// IsShadow reports whether the instance schedules no pods, and decides the pods of another one.
func (i *Instance) IsShadow() bool { return i.Config.Shadow != nil }

// IsCanary reports whether the instance decides a share of the pods of its scheduler name.
func (i *Instance) IsCanary() bool { return i.Config.Canary }

// Recorder returns the recorder that writes Events in the name of this profile.
func (i *Instance) Recorder() events.EventRecorderLogger { return i.handle.recorder }

// Plugins returns the plugins that run, by extension point, with weights.
func (i *Instance) Plugins() *schedconfig.Plugins { return i.plugins.Configured() }

// QueueSort returns the plugin that this profile would order the queue by.
func (i *Instance) QueueSort() fwk.QueueSortPlugin { return i.plugins.QueueSort }

// Extenders returns the extenders of this instance. Their calls end with ctx.
func (i *Instance) Extenders(ctx context.Context) []fwk.Extender {
	return extender.Bound(ctx, i.handle.services)
}

// FastPath returns how the fast path treats the plugins. It is for the goroutine of the scheduling
// loop.
func (i *Instance) FastPath() *fastpath.Plan { return i.fastPath }

// Preemption returns the plugin that preempts pods, or nil if the profile has none. Plugins that
// are not of kube-scheduler are not known to preempt.
func (i *Instance) Preemption() *preemption.Plugin {
	for _, plugin := range i.plugins.PostFilter {
		if pl, ok := plugin.(*preemption.Plugin); ok {
			return pl
		}
	}
	return nil
}

// GroupPreemption returns the plugin that preempts pods for pod groups, or nil if the profile does
// not enable it both at PostFilter and at PodGroupPostFilter.
func (i *Instance) GroupPreemption() *preemption.Plugin {
	plugin := i.Preemption()
	if plugin == nil || !slices.Contains(i.plugins.PodGroupPostFilter, fwk.PodGroupPostFilterPlugin(plugin)) {
		return nil
	}
	return plugin
}

// Closed returns a channel that is closed when the instance was retired, its last pod has released
// it, and it has released all its resources. Tests wait for it.
func (i *Instance) Closed() <-chan struct{} { return i.closed }

// Acquire takes a reference. The caller must know that another holder has one: while the instance's
// settings are in force in the queue, the Store has one.
func (i *Instance) Acquire() {
	if i.refs.Add(1) <= 1 {
		// Its plugins are closed: that is a bug here, not a condition to handle.
		panic(fmt.Sprintf("profile %q acquired after it was released", i.SchedulerName()))
	}
}

// Release gives back a reference. The last one closes the instance in the background: closing calls
// plugins, and the scheduling loop must not wait for those.
func (i *Instance) Release(logger klog.Logger) {
	switch refs := i.refs.Add(-1); {
	case refs == 0:
		go i.close(logger)
	case refs < 0:
		// One release too many would close an instance under a running cycle: that is a bug here,
		// not a condition to handle.
		panic(fmt.Sprintf("profile %q released more often than acquired", i.SchedulerName()))
	}
}

// close gives back everything that the build took. Called once, by the last Release or for a build
// that failed.
//
// The handlers are removed before the plugins are closed, so that a plugin gets no event after its
// Close. Its listers still work.
func (i *Instance) close(logger klog.Logger) {
	i.cancel()
	i.scope.Close()
	i.release()
	if err := closePlugins(logger, i.instances); err != nil {
		logger.Error(err, "Closing the plugins of a retired profile failed", "schedulerName", i.SchedulerName(),
			"revision", i.Config.Revision)
	}
	for _, e := range i.handle.services {
		e.Close()
	}
	i.handle.env.series.drop(logger, i.SchedulerName())
	close(i.closed)
}

// Discard closes an instance that was built and will not be swapped in.
func (i *Instance) Discard(logger klog.Logger) { i.Release(logger) }

// closePlugins closes every plugin that can be closed, even if others fail or panic.
func closePlugins(logger klog.Logger, instances map[string]fwk.Plugin) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(instances)) {
		if closer, ok := instances[name].(io.Closer); ok {
			if err := guard(logger, closer.Close); err != nil {
				errs = append(errs, fmt.Errorf("plugin %q: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// guard runs third-party code and turns its panic into an error. The stack goes to the log: it
// helps the plugin's author, but has no place in a status.
func guard(logger klog.Logger, fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			logger.Error(nil, "Plugin panicked", "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return fn()
}
