// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loop is the scheduling loop: one pod after the other, each in its own scheduling cycle.
//
//	queue.Pop           the pod, and its instance, acquired      loop.go
//	cache.UpdateSnapshot
//	algorithm.Decide    a node, or PostFilter                    decide.go
//	                    shadow profiles decide, too              shadows.go
//	assume, Reserve, Permit                                      place.go
//	binding.Binder.Run  in a goroutine that keeps the instance
//	or failure.Handler.Handle
//
// The pods of a group are popped together. All of them are placed before the first one is bound, or
// all are taken back (group.go).
//
// Each step passes a value to the next. The instance is released at the end of the binding cycle,
// or of a scheduling cycle that failed.
package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/canary"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/extender"
	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/groupcondition"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/shadow"
	"github.com/livesched/livesched/internal/scheduler/timing"
)

// BindingGrace is how long a loop that ends waits for the bindings in progress.
const BindingGrace = 4 * time.Second

// pluginMetricsSamplePercent is the share of cycles in which the duration of every single plugin
// call is measured, as in kube-scheduler: measuring all would cost more than many plugins do. See
// sampledAfterSlow for further cycles.
const pluginMetricsSamplePercent = 10

// cycleTimeout bounds a scheduling cycle: the context of its plugins and extenders ends, and only
// this pod fails. It is shorter than the time after which the process counts as stuck
// (scheduler.Healthy), because after a restart the same pod would take as long again. A plugin that
// ignores its context cannot be ended: then the process is restarted.
const cycleTimeout = 100 * time.Second

// errCycleTimeout is the cause with which the context of a scheduling cycle ends.
var errCycleTimeout = fmt.Errorf("the scheduling cycle took longer than %v", cycleTimeout)

// Loop schedules pods. All fields but Groups, GroupConditions, Decisions, Shadows and Canaries are
// required.
//
// Run has one goroutine, and each binding cycle has its own. Snapshot and Decider belong to the
// goroutine of Run.
type Loop struct {
	Queue    *queue.Queue
	Profiles *profile.Store
	Cache    *cache.Cache
	Snapshot *cache.Snapshot
	Decider  *algorithm.Decider
	// Groups knows the pod groups. nil: there are none.
	Groups *podgroup.Registry
	// GroupConditions writes whether groups are scheduled into their objects. nil: nothing is
	// written.
	GroupConditions *groupcondition.Writer
	Binder          *binding.Binder
	Failures        *failure.Handler
	Statuses        *podstatus.Writer
	Heartbeat       *Heartbeat
	Clock           clock.Clock
	// Decisions records the decisions. nil: they are not recorded.
	Decisions *decisionlog.Log
	// Shadows makes the decisions of shadow profiles. nil: there are none.
	Shadows *shadow.Comparer
	// Canaries watches how owners fare with revisions that are rolled out. nil: there are none.
	Canaries *canary.Watch

	// barriers has the barriers of groups whose pods may still be taken back, and perhaps a few
	// more. They belong to the goroutine of Run.
	barriers map[podgroup.Key]*binding.Barrier
	keeping  keeping
	memory   gang.Memory
	// sampled is the number of cycles to come in which every plugin call is measured, because one
	// was slow. It belongs to the goroutine of Run.
	sampled int
}

// Run schedules pods until the queue is closed. Then it waits for the bindings in progress, for a
// few seconds at most. It must be called once only.
func (l *Loop) Run(ctx context.Context) {
	var bindings, confirmations sync.WaitGroup
	defer confirmations.Wait()
	bindingCtx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // outlives the loop by BindingGrace
	defer cancel()
	unconfirmed := binding.NewUnconfirmed(l.Binder, l.Clock)
	confirmations.Go(func() { unconfirmed.Run(bindingCtx) })
	bind := func(ctx context.Context, c *cycle, placed *binding.Cycle) {
		ctx = klog.NewContext(bindingCtx, klog.FromContext(withPod(ctx, c.pod.Pod)))
		bindings.Go(func() { c.bind(ctx, placed, unconfirmed) })
	}
	for {
		l.Binder.Limit.AwaitRoom(ctx)
		popped := l.Queue.Pop(klog.FromContext(ctx))
		switch {
		case popped.Pod == nil:
			l.drain(ctx, &bindings)
			return
		case popped.Group != nil:
			for _, m := range l.newGroupCycle(&popped).run(ctx) {
				bind(ctx, m.cycle, m.placed)
			}
		default:
			c := l.newCycle(l.Profiles.Popped(popped.Settings), popped.Pod)
			c.share = popped.Share
			l.Heartbeat.Begin(c.start)
			if placed := c.run(withPod(ctx, c.pod.Pod)); placed != nil {
				bind(ctx, c, placed)
			}
		}
		l.Heartbeat.End()
	}
}

// newCycle returns the attempt at a pod that was popped under the settings of a profile. renew must
// follow before the pod is placed.
func (l *Loop) newCycle(instance *profile.Instance, pod *schedframework.QueuedPodInfo) *cycle {
	return &cycle{loop: l, profile: instance, pod: pod, start: l.Clock.Now()}
}

// renew gives the cycle a new state, without what plugins have written into an earlier one.
func (c *cycle) renew() {
	c.state, c.toActivate = schedframework.NewCycleState(), schedframework.NewPodsToActivate()
	c.state.SetRecordPluginMetrics(c.loop.sampled > 0 || rand.IntN(100) < pluginMetricsSamplePercent)
	c.loop.sampled = max(c.loop.sampled-1, 0)
	c.state.Write(schedframework.PodsToActivateKey, c.toActivate)
	c.state.SetPodGroupSchedulingCycle(c.groupState)
}

// drain waits for the bindings in progress.
func (l *Loop) drain(ctx context.Context, bindings *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		bindings.Wait()
	}()
	select {
	case <-done:
	case <-l.Clock.After(BindingGrace):
		klog.FromContext(ctx).Info("Stopping with bindings under way", "grace", BindingGrace)
	}
}

// cycle is one attempt at one pod. It belongs to the loop's goroutine until a binding goroutine
// takes it over.
type cycle struct {
	loop *Loop
	// profile is the instance that the pod was popped under, acquired.
	profile    *profile.Instance
	pod        *schedframework.QueuedPodInfo
	state      *schedframework.CycleState
	toActivate *schedframework.PodsToActivate
	start      time.Time
	// inGroup means that the pod is placed with others of its group, in the overlay of the attempt.
	// It does not preempt by itself: the group may not fit even with the room that it would make.
	inGroup bool
	// groupState is the state of the attempt at the group, in which plugins keep what its pods
	// share. nil: the pod shares nothing that is not in the API server.
	groupState fwk.PodGroupCycleState
	// trial means that the pod is placed to see whether it would fit without others. Such a
	// decision is not recorded.
	trial bool
	// class is the class of the pod that was decided, if it is known.
	class cache.Class
	// within is the part of the cluster in which the pod is placed. nil: all of it.
	within podgroup.Domain
	// decision is the number of the recorded decision. 0: it is not recorded.
	decision decisionlog.Number
	// recorded is the number of the decision that was recorded before trials began.
	recorded decisionlog.Number
	// nominatedTo is the node of the nomination that this cycle has taken from the pod, also if it
	// was given back since. It is "" if there was none, or if its end was reported.
	nominatedTo string
	// nominated reports whether there were nominated pods when the pod was decided.
	nominated bool
	// share is the share of the canary by which the pod was assigned to its profile.
	share int
	// firstAttempt means that the outcome counts for a roll-out.
	firstAttempt bool
	// took is how long the decision took, without those of shadows.
	took   time.Duration
	timing timing.Cycle
}

// run is the scheduling cycle. It returns a pod that is assumed on a node, to be bound. For any
// other pod it returns nil, after the pod has been given back or released, and the profile
// released.
func (c *cycle) run(ctx context.Context) *binding.Cycle {
	logger := klog.FromContext(ctx)
	if c.skip(logger) {
		c.release(logger)
		return nil
	}
	if state := c.stateOfGroup(); state != nil {
		c.groupState = state
	}
	c.renew()
	placed, nominating, status := c.placeInTime(ctx)
	if !c.resizes() {
		c.reportGroup(status)
	}
	c.noteCanary(nominating, status)
	if !status.IsSuccess() {
		c.fail(ctx, nominating, status)
		return nil
	}
	c.commit(logger, placed)
	return placed
}

// release ends the cycle of a pod that needs no node.
func (c *cycle) release(logger klog.Logger) {
	pod := c.pod.Pod
	c.loop.Queue.Done(pod.UID)
	if assumed, err := c.loop.Cache.IsAssumedPod(pod); err == nil && !assumed && pod.DeletionTimestamp == nil {
		// The binding for which the pod was assumed has failed since, and may not have queued it,
		// as it was in flight here. Add has no effect if the pod is queued, or bound.
		c.loop.Queue.Add(logger, pod)
	}
	c.profile.Release(logger)
}

// fail gives back a pod that got no node, and releases the profile.
func (c *cycle) fail(ctx context.Context, nominating *fwk.NominatingInfo, status *fwk.Status) {
	c.loop.Failures.Handle(ctx, failure.Attempt{
		ProfileName: c.profile.SchedulerName(),
		Recorder:    c.profile.Recorder(),
		Pod:         c.pod,
		InGroup:     c.inGroup,
		Resizes:     c.resizes(),
		Status:      status,
		Nominating:  nominating,
		Nominated:   c.nominatedTo,
		Start:       c.start,
		Decision:    cmp.Or(c.decision, c.recorded),
	})
	c.profile.Release(klog.FromContext(ctx))
}

// placeInTime is place with a context for the plugins that ends with the scheduling cycle, or after
// cycleTimeout.
func (c *cycle) placeInTime(ctx context.Context) (*binding.Cycle, *fwk.NominatingInfo, *fwk.Status) {
	ctx, cancel := context.WithTimeoutCause(ctx, cycleTimeout, errCycleTimeout)
	defer cancel()
	placed, nominating, status := c.place(c.timing.Attach(extender.WithBudget(ctx)))
	c.reportIfSlow(klog.FromContext(ctx))
	if status.Code() == fwk.Error && errors.Is(context.Cause(ctx), errCycleTimeout) &&
		!errors.Is(status.AsError(), errCycleTimeout) {
		// A plugin's own error does not say why its context ended.
		status = fwk.AsStatus(fmt.Errorf("%w: %w", errCycleTimeout, status.AsError()))
	}
	return placed, nominating, status
}

// bind is the binding cycle, in its own goroutine. It releases the profile, or lets unconfirmed do
// so if the pod is bound.
func (c *cycle) bind(ctx context.Context, placed *binding.Cycle, unconfirmed *binding.Unconfirmed) {
	release := func() { c.profile.Release(klog.FromContext(ctx)) }
	pod := placed.Pod.Pod // the queue owns placed.Pod if the binding fails
	c.loop.Statuses.Settle(ctx, pod.UID)
	result := decisionlog.BindFailed
	if c.loop.Binder.Run(ctx, placed) {
		result = decisionlog.Bound
		unconfirmed.Add(ctx, placed, release)
	} else {
		c.noteUnbound(ctx, pod)
		release()
		unconfirmed.AddUnbound(ctx, placed)
	}
	c.loop.Decisions.Finish(c.decision, result)
}

// skip reports whether there is nothing to schedule: the pod is being deleted, or is assumed
// already, which happens when an update queued it a second time during its cycle.
func (c *cycle) skip(logger klog.Logger) bool {
	pod := c.pod.Pod
	if pod.DeletionTimestamp != nil {
		c.profile.Recorder().WithLogger(logger).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling",
			"Scheduling",
			"skip schedule deleting pod: %v/%v", pod.Namespace, pod.Name)
		return true
	}
	assumed, err := c.loop.Cache.IsAssumedPod(pod)
	if err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Looking up whether the pod is assumed failed")
		return false
	}
	return assumed
}
