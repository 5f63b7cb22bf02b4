// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding carries out a placement that the scheduling loop has decided on and assumed: wait
// on Permit, PreBind, Bind, PostBind; or, when any of them fails, undo the assumption and hand the
// pod back.
package binding

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Binder runs binding cycles. It has no state of its own but for the Limit; each Run works on its
// own Cycle, in its own goroutine.
type Binder struct {
	Cache         *cache.Cache
	Queue         *queue.Queue
	PodsInPreBind *framework.PodsInPreBind
	// SetNominatedNode tells others, cluster autoscalers above all, where the pod is about to go.
	SetNominatedNode func(ctx context.Context, pod *corev1.Pod, nodeName string) error
	// Limit bounds the bindings that are under way at the same time.
	Limit *Limit
	// Read returns the pod as the API server has it now, which is not what a cache says.
	Read func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	// Failed handles a pod whose binding cycle failed and was undone. It releases the pod to the
	// queue. It is not called for a pod that turned out to be gone or on another node: nothing is
	// left to do for that one.
	Failed func(ctx context.Context, c *Cycle, status *fwk.Status)
}

// Cycle is one pod on its way to one node. Everything in it belongs to the pod's goroutine.
type Cycle struct {
	// Framework and Recorder are those of the generation that the pod was popped under.
	Framework *framework.Framework
	Recorder  events.EventRecorderLogger
	State     fwk.CycleState
	// Pod is the assumed pod: a copy of the queued one with its node set.
	Pod *schedframework.QueuedPodInfo
	// NodeName is where the pod goes.
	NodeName string
	// Extenders returns the extenders of the generation, whose calls end with ctx. nil where there
	// are none.
	Extenders func(ctx context.Context) []fwk.Extender
	// Start is when the scheduling cycle began.
	Start time.Time
	// PodsToActivate are moved to the active queue when the pod is bound.
	PodsToActivate *schedframework.PodsToActivate
	// EvaluatedNodes and FeasibleNodes are for the log.
	EvaluatedNodes, FeasibleNodes int

	// lost says that there is nothing left to schedule.
	lost bool
}

// errNobodyBinds is the error of a pod that every Bind plugin leaves to the others.
var errNobodyBinds = errors.New("no Bind plugin of the profile took the pod")

// Run binds the pod or undoes its assumption. It returns when the pod needs no more attention in
// this attempt. The context that plugins are given ends with it.
func (b *Binder) Run(ctx context.Context, c *Cycle) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	schedmetrics.Goroutines.WithLabelValues(schedmetrics.Binding).Inc()
	defer schedmetrics.Goroutines.WithLabelValues(schedmetrics.Binding).Dec()
	if status := b.bind(ctx, c); !status.IsSuccess() {
		b.undo(ctx, c, status)
	}
}

// bind takes the pod through the extension points of the binding cycle.
func (b *Binder) bind(ctx context.Context, c *Cycle) *fwk.Status {
	pod := c.Pod.Pod
	preFlight := b.preFlight(ctx, c)
	if preFlight.IsError() || preFlight.IsRejected() {
		// One that nobody waits for any more must not stay among the waiting pods, for preemption
		// to find it there.
		c.Framework.RejectWaitingPod(pod.UID)
		c.Framework.WaitOnPermit(ctx, pod)
		return preFlight
	}
	if status := c.Framework.WaitOnPermit(ctx, pod); !status.IsSuccess() {
		return Refused(pod, c.NodeName, status)
	}

	// No plugin can refuse the pod from here on: what fails now is retried after a backoff,
	// whatever events came in. So the queue may forget the events that it kept for this pod.
	b.Queue.Done(pod.UID)

	if status := b.preBind(ctx, c, preFlight); !status.IsSuccess() {
		return status
	}
	status, became := b.attempt(ctx, c)
	switch {
	case became == lost:
		c.lost = true
		return status
	case became == unbound:
		return status
	case !status.IsSuccess():
		klog.FromContext(ctx).Info("The pod is bound, although binding it seemed to fail", "pod", klog.KObj(pod), "node", c.NodeName, "reason", status.Message())
	}
	b.bound(ctx, c)
	return nil
}

// assign has an extender or else a Bind plugin bind the pod.
func (c *Cycle) assign(ctx context.Context) *fwk.Status {
	if taken, status := c.bindByExtender(ctx); taken {
		return status
	}
	status := c.Framework.RunBindPlugins(ctx, c.State, c.Pod.Pod, c.NodeName)
	if status.IsSkip() {
		return fwk.AsStatus(errNobodyBinds)
	}
	return status
}

// preFlight asks the PreBind plugins whether they have work, and announces the node if the pod will
// not be bound at once (KEP-5278).
func (b *Binder) preFlight(ctx context.Context, c *Cycle) *fwk.Status {
	pod := c.Pod.Pod
	status := c.Framework.RunPreBindPreFlights(ctx, c.State, pod, c.NodeName)
	if status.IsError() || status.IsRejected() {
		return status
	}
	if status.IsSuccess() || c.Framework.WillWaitOnPermit(ctx, pod) {
		if err := b.SetNominatedNode(ctx, pod, c.NodeName); err != nil {
			// Losing the announcement does not make the placement worse.
			klog.FromContext(ctx).Error(err, "Announcing the nominated node failed", "pod", klog.KObj(pod), "node", c.NodeName)
		}
	}
	return status
}

// preBind runs the PreBind plugins. While they work, a preemptor may cancel the pod.
func (b *Binder) preBind(ctx context.Context, c *Cycle, preFlight *fwk.Status) *fwk.Status {
	uid := c.Pod.Pod.UID
	if !preFlight.IsSuccess() {
		return c.Framework.RunPreBindPlugins(ctx, c.State, c.Pod.Pod, c.NodeName)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.PodsInPreBind.Add(uid, cancel)
	defer b.PodsInPreBind.Remove(uid)
	if status := c.Framework.RunPreBindPlugins(ctx, c.State, c.Pod.Pod, c.NodeName); !status.IsSuccess() {
		return status
	}
	if p := b.PodsInPreBind.Get(uid); p != nil && !p.MarkPrebound() {
		return fwk.AsStatus(context.Cause(ctx))
	}
	return nil
}

// bound reports a success.
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

// undo takes back what the pod was promised, in the reverse order, and hands it to Failed.
func (b *Binder) undo(ctx context.Context, c *Cycle, status *fwk.Status) {
	logger := klog.FromContext(ctx)
	pod := c.Pod.Pod
	c.Framework.RunReservePluginsUnreserve(ctx, c.State, pod, c.NodeName)
	if err := b.Cache.ForgetPod(logger, pod); err != nil {
		// The API server has confirmed it meanwhile, here or on another node: its room is taken.
		utilruntime.HandleErrorWithContext(ctx, err, "Forgetting an assumed pod failed", "pod", klog.KObj(pod), "node", c.NodeName)
		b.fail(ctx, c, status)
		return
	}
	// To the others, giving the room back is the same as a pod being deleted.
	if !status.IsRejected() {
		b.Queue.Move(logger, schedframework.EventAssignedPodDelete, pod, nil, nil)
		b.fail(ctx, c, status)
		return
	}
	// The refused pod itself must not be woken by its own going: tell the others only after it is
	// back in the queue, and leave it out.
	b.fail(ctx, c, status)
	b.Queue.Move(logger, schedframework.EventAssignedPodDelete, pod, nil, func(other *corev1.Pod) bool { return other.UID != pod.UID })
}

// fail hands the pod to Failed, if there is one left.
func (b *Binder) fail(ctx context.Context, c *Cycle, status *fwk.Status) {
	if c.lost {
		klog.FromContext(ctx).V(2).Info("The pod is gone or on another node", "pod", klog.KObj(c.Pod.Pod), "reason", status.Message())
		return
	}
	b.Failed(ctx, c, status)
}
