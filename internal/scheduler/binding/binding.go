// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding is the binding cycle of a pod that the scheduling loop has assumed on a node:
// wait on Permit, PreBind, the Barrier of its group, Bind, PostBind. If any of them fails, the
// package forgets the assumed pod and passes it to package failure.
package binding

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Binder runs binding cycles. All fields but Groups and Term are required. Each Run works on its
// own Cycle, in its own goroutine; all share the Limit.
type Binder struct {
	// Client announces nominated nodes, and reads pods whose binding failed.
	Client        clientset.Interface
	Cache         *cache.Cache
	Queue         *queue.Queue
	PodsInPreBind *framework.PodsInPreBind
	// Limit bounds the bindings that run at the same time.
	Limit *Limit
	// AnnounceAfter is how long a pod waits in Permit, PreBind and at the Barrier before its node
	// is announced.
	AnnounceAfter time.Duration
	// Failures takes the pods whose binding cycle failed.
	Failures Failures
	// Groups no longer counts pods of groups that were not bound. nil: there are no groups.
	Groups *podgroup.Registry
	// Claims has the resource claims that plugins see. nil: no plugin allocates devices.
	Claims Claims
	// Term is the term of this replica as the leader, nil without leader election.
	Term *lease.Term
}

// Failures handles failed attempts; see failure.Handler.
type Failures interface {
	// Handle gives the pod back to the queue or releases it.
	Handle(ctx context.Context, a failure.Attempt)
}

// Cycle is the binding cycle of one pod to one node. It belongs to the pod's goroutine.
type Cycle struct {
	// Framework and Recorder belong to the instance that the pod was popped under.
	Framework *framework.Framework
	Recorder  events.EventRecorderLogger
	State     fwk.CycleState
	// Pod is the assumed pod: a copy of the queued one with its node set.
	Pod *schedframework.QueuedPodInfo
	// NodeName is the name of the node.
	NodeName string
	// Extenders returns the extenders of the instance, whose calls end with ctx. nil if there are
	// none.
	Extenders func(ctx context.Context) []fwk.Extender
	// Barrier is the barrier of the pod's group. nil: the pod is bound by itself.
	Barrier *Barrier
	// Start is when the scheduling cycle began.
	Start time.Time
	// Decision is the number of the recorded decision. 0: it is not recorded.
	Decision decisionlog.Number
	// PodsToActivate are moved to the active queue when the pod is bound.
	PodsToActivate *schedframework.PodsToActivate
	// EvaluatedNodes and FeasibleNodes are for the log.
	EvaluatedNodes, FeasibleNodes int

	// byExtender means that an extender took the pod.
	byExtender bool
	// lost means that the pod was gone, or on another node, when Run ended.
	lost bool
}

// errNobodyBinds is the error of a pod that every Bind plugin skips.
var errNobodyBinds = errors.New("no Bind plugin of the profile took the pod")

// Run binds the pod, or forgets the assumed pod and passes it to Failures. It reports whether the
// pod is bound to its node. The context that plugins get ends with Run.
func (b *Binder) Run(ctx context.Context, c *Cycle) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	schedmetrics.Goroutines.WithLabelValues(schedmetrics.Binding).Inc()
	defer schedmetrics.Goroutines.WithLabelValues(schedmetrics.Binding).Dec()
	if status, became := b.bind(ctx, c); !status.IsSuccess() {
		b.undo(ctx, c, status, became)
		return false
	}
	return true
}

// bind takes the pod through the extension points of the binding cycle.
func (b *Binder) bind(ctx context.Context, c *Cycle) (*fwk.Status, outcome) {
	if status := b.beforeBind(ctx, c); !status.IsSuccess() {
		return status, unbound
	}
	status, became := b.attempt(ctx, c)
	switch {
	case became != boundHere:
		return status, became
	case !status.IsSuccess():
		klog.FromContext(ctx).Info("The pod is bound, although binding it seemed to fail", "pod", klog.KObj(c.Pod.Pod),
			"node", c.NodeName, "reason", status.Message())
	}
	b.bound(ctx, c)
	return nil, boundHere
}

// beforeBind takes the pod through all that comes before Bind. It asks the PreBind plugins first
// whether they have work: if so, or if the pod waits on Permit, the pod may not be bound soon.
func (b *Binder) beforeBind(ctx context.Context, c *Cycle) *fwk.Status {
	preFlight := c.Framework.RunPreBindPreFlights(ctx, c.State, c.Pod.Pod, c.NodeName)
	if preFlight.IsSuccess() || preFlight.IsSkip() && c.Framework.WillWaitOnPermit(ctx, c.Pod.Pod) {
		end := b.announceLater(ctx, c)
		defer end()
	}
	if status := b.prepare(ctx, c, preFlight); !status.IsSuccess() {
		c.Barrier.drop(status.AsError())
		return status
	}
	return b.awaitGroup(ctx, c)
}

// prepare takes the pod through the extension points before Bind, at which it can be refused.
func (b *Binder) prepare(ctx context.Context, c *Cycle, preFlight *fwk.Status) *fwk.Status {
	pod := c.Pod.Pod
	if preFlight.IsError() || preFlight.IsRejected() {
		// The pod must not stay among the waiting pods, where preemption would find it.
		c.Framework.RejectWaitingPod(pod.UID)
		c.Framework.WaitOnPermit(ctx, pod)
		return preFlight
	}
	if status := c.Framework.WaitOnPermit(ctx, pod); !status.IsSuccess() {
		return Refused(pod, c.NodeName, status)
	}

	// No plugin can refuse the pod from here on: a failure is retried after a backoff, regardless
	// of events. So the queue may drop the events that it kept for this pod.
	b.Queue.Done(pod.UID)

	return b.preBind(ctx, c, preFlight)
}

// awaitGroup waits at the barrier of the pod's group. In the meantime, a preemptor may cancel the
// pod, as in PreBind.
func (b *Binder) awaitGroup(ctx context.Context, c *Cycle) *fwk.Status {
	if c.Barrier == nil {
		return nil
	}
	return b.cancellable(ctx, c,
		func(ctx context.Context) *fwk.Status { return fwk.AsStatus(c.Barrier.pass(ctx, c.Pod.Pod)) })
}

// cancellable calls a function, during which a preemptor may cancel the pod: then the context of
// the function ends, and the status is its cause, even if the function succeeds.
func (b *Binder) cancellable(ctx context.Context, c *Cycle, do func(context.Context) *fwk.Status) *fwk.Status {
	uid := c.Pod.Pod.UID
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.PodsInPreBind.Add(uid, cancel)
	defer b.PodsInPreBind.Remove(uid)
	if status := do(ctx); !status.IsSuccess() {
		if ctx.Err() != nil && errors.Is(status.AsError(), context.Canceled) {
			return fwk.AsStatus(context.Cause(ctx))
		}
		return status
	}
	if p := b.PodsInPreBind.Get(uid); p != nil && !p.MarkPrebound() {
		return fwk.AsStatus(context.Cause(ctx))
	}
	return nil
}

// assign lets an extender, or else the Bind plugins, bind the pod.
func (c *Cycle) assign(ctx context.Context) *fwk.Status {
	taken, status := c.bindByExtender(ctx)
	if c.byExtender = taken; taken {
		return status
	}
	return c.runBindPlugins(ctx)
}

// preBind runs the PreBind plugins, and checks the pod's claims after that. While plugins work, a
// preemptor or the loss of a claim may cancel the pod.
func (b *Binder) preBind(ctx context.Context, c *Cycle, preFlight *fwk.Status) *fwk.Status {
	run := func(ctx context.Context) *fwk.Status {
		reserved := b.reservedClaims(c.Pod.Pod)
		if status := c.Framework.RunPreBindPlugins(ctx, c.State, c.Pod.Pod, c.NodeName); !status.IsSuccess() {
			return status
		}
		return fwk.AsStatus(b.checkDevices(ctx, c, reserved))
	}
	if !preFlight.IsSuccess() {
		return run(ctx)
	}
	return b.cancellable(ctx, c, run)
}

// bound reports success.
func (b *Binder) bound(ctx context.Context, c *Cycle) {
	logger := klog.FromContext(ctx)
	pod := c.Pod.Pod
	c.Recorder.WithLogger(logger).Eventf(pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding",
		"Successfully assigned %v/%v to %v", pod.Namespace, pod.Name, c.NodeName)
	logger.V(2).Info("Bound the pod", "pod", klog.KObj(pod), "node", c.NodeName,
		"evaluatedNodes", c.EvaluatedNodes, "feasibleNodes", c.FeasibleNodes)
	observe(c)
	c.Framework.RunPostBindPlugins(ctx, c.State, pod, c.NodeName)

	c.PodsToActivate.Lock()
	defer c.PodsToActivate.Unlock()
	if len(c.PodsToActivate.Map) != 0 {
		b.Queue.Activate(logger, c.PodsToActivate.Map)
	}
}

// undo reverts the reservations and forgets the assumed pod, in reverse order, and passes the pod
// to Failures.
func (b *Binder) undo(ctx context.Context, c *Cycle, status *fwk.Status, became outcome) {
	logger := klog.FromContext(ctx)
	pod := c.Pod.Pod
	if status.Code() == fwk.Error {
		b.readDevices(ctx, pod)
	}
	b.Groups.Undo(pod)
	c.Framework.RunReservePluginsUnreserve(ctx, c.State, pod, c.NodeName)
	b.endReservations(ctx, pod)
	if err := b.Cache.ForgetPod(logger, pod); err != nil {
		// The API server has confirmed the pod in the meantime, on this or another node: it takes
		// up resources.
		utilruntime.HandleErrorWithContext(ctx, err, "Forgetting an assumed pod failed", "pod", klog.KObj(pod), "node",
			c.NodeName)
		b.fail(ctx, c, status, became)
		return
	}
	// To the other pods, this is the same as the deletion of an assigned pod.
	if !status.IsRejected() {
		b.Queue.Move(logger, schedframework.EventAssignedPodDelete, pod, nil, nil)
		b.Queue.ReservationEnded(logger, pod)
		b.fail(ctx, c, status, became)
		return
	}
	// The removal of the refused pod must not wake that pod itself: move the others only after it
	// is back in the queue, and leave it out.
	b.fail(ctx, c, status, became)
	b.Queue.Move(logger, schedframework.EventAssignedPodDelete, pod, nil,
		func(other *corev1.Pod) bool { return other.UID != pod.UID })
	b.Queue.ReservationEnded(logger, pod)
}

// fail passes the pod to Failures, unless it is lost: then nothing is left to schedule.
func (b *Binder) fail(ctx context.Context, c *Cycle, status *fwk.Status, became outcome) {
	if became == lost {
		c.lost = true
		klog.FromContext(ctx).V(2).Info("The pod is gone or on another node", "pod", klog.KObj(c.Pod.Pod), "reason",
			status.Message())
		return
	}
	b.Failures.Handle(ctx, failure.Attempt{
		ProfileName: c.Framework.ProfileName(),
		Recorder:    c.Recorder,
		Pod:         c.Pod,
		Status:      status,
		Nominating:  failure.ClearNomination,
		Start:       c.Start,
		Decision:    c.Decision,
	})
}
