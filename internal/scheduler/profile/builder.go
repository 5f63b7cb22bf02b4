// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// DefaultBuildTimeout bounds one build, including the first list of informers that no profile
// needed before.
const DefaultBuildTimeout = 30 * time.Second

// syncGrace is how long a build may take after its timeout to report which informers it waited for.
const syncGrace = time.Second

// Builder builds instances, off the scheduling loop. It is safe for concurrent use. Plugins may
// assume, as in kube-scheduler, that no two of them are constructed at the same time. So callers
// run one build at a time, apart from builds that hang. Supervisor does so.
type Builder struct {
	env     *Environment
	timeout time.Duration
	clock   clock.WithDelayedExecution
	hanging hangingBuilds
}

// NewBuilder returns a Builder whose instances share env. The timeout bounds each build; 0 means
// DefaultBuildTimeout.
func NewBuilder(env *Environment, timeout time.Duration, clock clock.WithDelayedExecution) *Builder {
	return &Builder{env: env, timeout: cmp.Or(timeout, DefaultBuildTimeout), clock: clock}
}

// Build is one build of an instance: plugin instances from their factories, their extension points,
// queueing hints, informers synced and event sources delivering. It does not affect running
// instances.
//
//	running -> built -> taken       by Take
//	   |         `----> discarded   by Cancel or the end of the context, unless it was taken before
//	   |----> failed                an error or a panic of a plugin
//	   `----> cut off               by the timeout, Cancel or the end of the context
//
// A build that fails leaves nothing behind. A build that hangs in a plugin is cut off: it ends with
// an error, its plugins lose their event handlers and their context, and the parts that it has
// built are closed if the plugin returns.
//
// Goroutines: each build has one, which calls the plugins and closes the parts of a failed build.
// All methods are safe for concurrent use.
type Build struct {
	cfg     *resolve.Profile
	builder *Builder
	begun   time.Time
	// lifetime ends when the build is cancelled or taken. It is a field because the instance is
	// discarded with it until then.
	lifetime context.Context
	cancel   context.CancelCauseFunc

	// done is closed when the build has ended. The fields below are not written afterwards.
	done     chan struct{}
	instance *Instance
	err      error
	took     time.Duration
	// keep prevents the end of lifetime from discarding the instance. It returns false if the
	// instance was discarded already.
	keep func() bool

	mu    sync.Mutex // guards ended, onEnd, and the end of the build
	ended bool
	onEnd func()
}

// Start begins a build. ctx bounds it until Take, and its values, such as the logger, are passed to
// the plugins. The instance lives until its last holder has released it. While builds of the same
// revision hang, the build fails immediately, except for a few retries: see hangingBuilds.
func (b *Builder) Start(ctx context.Context, cfg *resolve.Profile) *Build {
	u := b.newBuild(ctx, cfg)
	if err := b.hanging.check(cfg, b.clock.Now()); err != nil {
		u.end(nil, err)
		return u
	}
	env, err := b.env.of(cfg)
	if err != nil {
		u.end(nil, err)
		return u
	}
	plugins, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := newAssembly(klog.FromContext(ctx), cancel, env, cfg)
	waiting, expire := context.WithCancelCause(u.lifetime)
	timer := b.clock.AfterFunc(b.timeout, func() { expire(fmt.Errorf("the build did not end within %v", b.timeout)) })
	stop := context.AfterFunc(waiting, func() { u.awaitResult(a, context.Cause(waiting)) })
	go func() {
		err := a.guardedRun(plugins, waiting)
		stop()
		timer.Stop()
		u.settle(klog.FromContext(ctx), a, err)
		expire(nil)
	}()
	return u
}

func (b *Builder) newBuild(ctx context.Context, cfg *resolve.Profile) *Build {
	u := &Build{cfg: cfg, builder: b, begun: b.clock.Now(), done: make(chan struct{})}
	u.lifetime, u.cancel = context.WithCancelCause(ctx)
	return u
}

// Build makes an instance and waits for it: see Start.
func (b *Builder) Build(ctx context.Context, cfg *resolve.Profile) (*Instance, error) {
	u := b.Start(ctx, cfg)
	<-u.done
	if u.err != nil {
		return nil, u.err
	}
	if instance := u.Take(); instance != nil {
		return instance, nil
	}
	return nil, context.Cause(ctx)
}

// Done returns a channel that is closed when the build has ended: with success, with an error, or
// cut off.
func (b *Build) Done() <-chan struct{} { return b.done }

// Err returns why the build failed, nil if it did not. Call it after Done is closed.
func (b *Build) Err() error { return b.err }

// Duration returns how long the build took. Call it after Done is closed.
func (b *Build) Duration() time.Duration { return b.took }

// OnEnd calls f in a new goroutine once the build has ended. A later f replaces it.
func (b *Build) OnEnd(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		go f()
		return
	}
	b.onEnd = f
}

// Take returns the instance of a build that has succeeded, with one reference, which belongs to the
// Store. It returns nil if the instance was discarded or taken before.
func (b *Build) Take() *Instance {
	if b.keep == nil || !b.keep() {
		return nil
	}
	b.cancel(nil)
	return b.instance
}

// Cancel cuts off a build that is running and discards an instance that was not taken.
func (b *Build) Cancel(cause error) { b.cancel(cause) }

// released reports whether the build has made an instance that was taken or discarded.
func (b *Build) released() bool {
	select {
	case <-b.done:
		return b.err == nil && b.lifetime.Err() != nil
	default:
		return false
	}
}

// awaitResult cuts off a build when its time is up, for a reason. A build that waits for informers
// gets syncGrace to report which ones, now that its context has ended. A build that is inside a
// plugin may never return.
func (b *Build) awaitResult(a *assembly, reason error) {
	if a.doing() == stageSync {
		timer := b.builder.clock.NewTimer(syncGrace)
		defer timer.Stop()
		select {
		case <-b.done:
		case <-timer.C():
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	err := fmt.Errorf("cut off while %s: %w", a.doing(), reason)
	b.builder.hanging.add(b.cfg, err, b.builder.clock.Now(), b.builder.timeout)
	a.takeBack()
	b.endLocked(nil, err)
}

// settle records the result of the assembly. It runs on the build's goroutine, and closes an
// instance that will not be used. It does so after the build has ended, since a plugin that fails
// to build may also hang in Close.
func (b *Build) settle(logger klog.Logger, a *assembly, err error) {
	var instance *Instance
	if err == nil {
		instance = a.finish(b.builder.clock.Now())
	}
	switch inTime := b.end(instance, err); {
	case !inTime:
		b.builder.hanging.remove(b.cfg)
		logger.V(2).Info("A build that was cut off has returned", "err", err)
		a.instance.close(logger)
	case err != nil:
		a.instance.close(logger)
	}
}

// end ends the build, and reports whether it had not ended before.
func (b *Build) end(instance *Instance, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false
	}
	b.endLocked(instance, err)
	return true
}

func (b *Build) endLocked(instance *Instance, err error) {
	b.ended = true
	b.instance, b.err, b.took = instance, err, b.builder.clock.Since(b.begun)
	if instance != nil {
		logger := klog.FromContext(b.lifetime)
		b.keep = context.AfterFunc(b.lifetime, func() { instance.Discard(logger) })
	} else {
		b.cancel(err)
	}
	close(b.done)
	if b.onEnd != nil {
		go b.onEnd()
	}
}
