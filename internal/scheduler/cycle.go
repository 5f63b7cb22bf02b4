// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// pluginMetricsSamplePercent is the share of cycles in which the duration of every single plugin
// call is measured, as in kube-scheduler: measuring all would cost more than many plugins do.
const pluginMetricsSamplePercent = 10

// cycle is one attempt at one pod, up to the point where its binding goroutine takes over. It runs
// on the scheduling loop's goroutine.
type cycle struct {
	*Scheduler
	profile    *profile.Instance
	pod        *schedframework.QueuedPodInfo
	state      *schedframework.CycleState
	toActivate *schedframework.PodsToActivate
	start      time.Time
}

// scheduleOne takes the next pod and schedules it. It returns false once the queue is closed.
func (s *Scheduler) scheduleOne(ctx context.Context) bool {
	logger := klog.FromContext(ctx)
	s.binder.Limit.AwaitRoom(ctx)
	popped, settings := s.queue.Pop(logger)
	if popped == nil {
		return false
	}
	s.heartbeat.begin(s.clock.Now())
	defer s.heartbeat.end()

	c := &cycle{
		Scheduler:  s,
		profile:    s.store.Popped(settings),
		pod:        popped,
		state:      schedframework.NewCycleState(),
		toActivate: schedframework.NewPodsToActivate(),
		start:      s.clock.Now(),
	}
	c.state.SetRecordPluginMetrics(rand.IntN(100) < pluginMetricsSamplePercent)
	c.state.Write(schedframework.PodsToActivateKey, c.toActivate)
	c.run(klog.NewContext(ctx, klog.LoggerWithValues(logger, "pod", klog.KObj(popped.Pod))))
	return true
}

// run schedules the pod and releases the profile, now or at the end of the binding cycle.
func (c *cycle) run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	if c.skip(logger) {
		c.queue.Done(c.pod.Pod.UID)
		c.profile.Release(logger)
		return
	}
	// The plugins get a context that ends with the scheduling cycle; the binding cycle gets its
	// own.
	cycleCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	placed, nominating, status := c.place(cycleCtx)
	if !status.IsSuccess() {
		c.fail(cycleCtx, c.pod, status, nominating)
		c.profile.Release(logger)
		return
	}
	c.bindings.Go(func() {
		defer c.profile.Release(logger)
		ctx := klog.NewContext(c.bindingContext, logger)
		c.statuses.Settle(ctx, placed.Pod.Pod.UID)
		c.binder.Run(ctx, placed)
	})
}

// skip says whether there is nothing to schedule: the pod is being deleted, or is assumed already,
// which happens when an update queued it a second time while it was in its cycle.
func (c *cycle) skip(logger klog.Logger) bool {
	pod := c.pod.Pod
	if pod.DeletionTimestamp != nil {
		c.profile.Recorder().WithLogger(logger).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
			"skip schedule deleting pod: %v/%v", pod.Namespace, pod.Name)
		return true
	}
	assumed, err := c.cache.IsAssumedPod(pod)
	if err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Looking up whether the pod is assumed failed")
		return false
	}
	return assumed
}

// place decides on a node, assumes the pod there and gets the consent of the Reserve and Permit
// plugins. On failure nothing stays assumed or reserved.
func (c *cycle) place(ctx context.Context) (*binding.Cycle, *fwk.NominatingInfo, *fwk.Status) {
	logger := klog.FromContext(ctx)
	if err := c.cache.UpdateSnapshot(logger, c.snapshot); err != nil {
		return nil, clearNomination, fwk.AsStatus(err)
	}
	result, nominating, status := c.decide(ctx)
	if !status.IsSuccess() {
		return nil, nominating, status
	}
	b := &binding.Cycle{
		Framework:      c.profile.Framework,
		Recorder:       c.profile.Recorder(),
		State:          c.state,
		Pod:            assumedCopy(c.pod, result.SuggestedHost),
		NodeName:       result.SuggestedHost,
		Start:          c.start,
		PodsToActivate: c.toActivate,
		EvaluatedNodes: result.EvaluatedNodes,
		FeasibleNodes:  result.FeasibleNodes,
		Extenders:      c.profile.Extenders,
	}
	if err := c.assume(logger, b.Pod.PodInfo, result.Class); err != nil {
		return nil, clearNomination, fwk.AsStatus(err)
	}
	c.endNomination(logger, c.pod.Pod, b.NodeName)
	if status := c.consent(ctx, b); !status.IsSuccess() {
		c.profile.Framework.RunReservePluginsUnreserve(ctx, c.state, b.Pod.Pod, b.NodeName)
		if err := c.cache.ForgetPod(logger, b.Pod.Pod); err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Forgetting an assumed pod failed", "node", b.NodeName)
		}
		return nil, clearNomination, binding.Refused(c.pod.Pod, b.NodeName, status)
	}
	c.activate(logger)
	return b, nil, nil
}

// assume counts the pod towards its node, by its class if the decision has told it.
func (c *cycle) assume(logger klog.Logger, pod *schedframework.PodInfo, class cache.Class) error {
	if class.ID == 0 {
		return c.cache.AssumePod(logger, pod)
	}
	return c.cache.AssumePodOfClass(logger, pod.Pod, class)
}

// decide runs the algorithm, and the PostFilter plugins (preemption) if no node fits.
func (c *cycle) decide(ctx context.Context) (algorithm.Result, *fwk.NominatingInfo, *fwk.Status) {
	defer func() { schedmetrics.SchedulingAlgorithmLatency.Observe(schedmetrics.SinceInSeconds(c.start)) }()

	result, err := c.algorithm.Schedule(ctx, algorithm.Profile{
		Framework:                c.profile.Framework,
		Extenders:                c.profile.Extenders(ctx),
		PercentageOfNodesToScore: c.profile.Config.PercentageOfNodesToScore,
		FastPath:                 c.profile.FastPath(),
	}, c.state, c.pod.Pod)
	var fitError *schedframework.FitError
	switch {
	case err == nil:
		return result, nil, nil
	case errors.Is(err, algorithm.ErrNoNodesAvailable):
		return result, clearNomination, fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(err)
	case !errors.As(err, &fitError):
		return result, clearNomination, fwk.AsStatus(err)
	case !c.profile.Framework.HasPostFilterPlugins():
		return result, clearNomination, fwk.NewStatus(fwk.Unschedulable).WithError(err)
	}
	nominating := c.postFilter(ctx, fitError)
	return result, nominating, fwk.NewStatus(fwk.Unschedulable).WithError(err)
}

// postFilter lets the PostFilter plugins make room, and writes what they say into the error that
// the user sees.
func (c *cycle) postFilter(ctx context.Context, fitError *schedframework.FitError) *fwk.NominatingInfo {
	result, status := c.profile.Framework.RunPostFilterPlugins(ctx, c.state, c.pod.Pod, fitError.Diagnosis.NodeToStatus)
	fitError.Diagnosis.PostFilterMsg = status.Message()
	if status.IsError() {
		utilruntime.HandleErrorWithContext(ctx, status.AsError(), "The PostFilter plugins failed")
	}
	if result == nil {
		return nil
	}
	return result.NominatingInfo
}

// consent runs the Reserve and Permit plugins. A pod that has to wait is entered among the waiting
// pods here, before its binding goroutine starts, so that nobody looks for it in vain.
func (c *cycle) consent(ctx context.Context, b *binding.Cycle) *fwk.Status {
	f := c.profile.Framework
	if status := f.RunReservePluginsReserve(ctx, c.state, b.Pod.Pod, b.NodeName); !status.IsSuccess() {
		return status
	}
	waitTimes, status := f.RunPermitPlugins(ctx, c.state, b.Pod.Pod, b.NodeName)
	if status.IsWait() {
		f.AddWaitingPod(b.Pod.Pod, waitTimes)
		return nil
	}
	return status
}

// activate moves the pods that plugins have asked for to the active queue.
func (c *cycle) activate(logger klog.Logger) {
	c.toActivate.Lock()
	defer c.toActivate.Unlock()
	if len(c.toActivate.Map) != 0 {
		c.queue.Activate(logger, c.toActivate.Map)
		c.toActivate.Map = map[string]*corev1.Pod{}
	}
}

// fail reports a failed attempt of this cycle's generation.
func (c *cycle) fail(ctx context.Context, pod *schedframework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo) {
	c.handleFailure(ctx, &failure{
		profileName: c.profile.SchedulerName(),
		recorder:    c.profile.Recorder(),
		pod:         pod,
		status:      status,
		nominating:  nominating,
		start:       c.start,
	})
}

// assumedCopy returns the queue's item with its pod put on a node. The pod is copied as far as it
// differs: everything below its spec is shared with the informer's object, which nobody writes to.
func assumedCopy(queued *schedframework.QueuedPodInfo, nodeName string) *schedframework.QueuedPodInfo {
	pod := *queued.Pod
	pod.Spec.NodeName = nodeName
	info := *queued.PodInfo
	info.Pod = &pod
	assumed := *queued
	assumed.PodInfo = &info
	return &assumed
}

// bindingFailed is what the Binder calls after it has undone a placement.
func (s *Scheduler) bindingFailed(ctx context.Context, b *binding.Cycle, status *fwk.Status) {
	s.handleFailure(ctx, &failure{
		profileName: b.Framework.ProfileName(),
		recorder:    b.Recorder,
		pod:         b.Pod,
		status:      status,
		nominating:  clearNomination,
		start:       b.Start,
	})
}

// setNominatedNode announces where a pod is about to go.
func (s *Scheduler) setNominatedNode(ctx context.Context, pod *corev1.Pod, nodeName string) error {
	if pod.Status.NominatedNodeName == nodeName {
		return nil
	}
	status := pod.Status.DeepCopy()
	status.NominatedNodeName = nodeName
	if err := podstatus.Patch(ctx, s.client, pod, status); err != nil {
		return fmt.Errorf("patching the pod's status: %w", err)
	}
	return nil
}

// readPod reads a pod from the API server itself.
func (s *Scheduler) readPod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return s.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
}
