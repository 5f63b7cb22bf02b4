// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// maxPermitTimeout is the longest time that a Permit plugin can make a pod wait.
const maxPermitTimeout = 15 * time.Minute

// RunPermitPlugins runs all Permit plugins: each allows the pod, asks it to wait, or refuses it.
// The first that refuses or fails ends the run. If plugins ask to wait, the status is Wait, and the
// map holds the timeout of each, at most 15 minutes: the caller passes it to AddWaitingPod.
func (f *Framework) RunPermitPlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string,
) (waitTimes map[string]time.Duration, status *fwk.Status) {
	defer f.observePoint(schedmetrics.Permit, time.Now(), &status)
	logger := newPointLogger(ctx, schedmetrics.Permit, "node", klog.KRef("", nodeName))
	waitTimes = map[string]time.Duration{}
	var reasons []string
	for _, pl := range f.cfg.Plugins.Permit {
		ctx := logger.context(ctx, pl.Name())
		timeout, s := callFor(ctx, f, state, schedmetrics.Permit, pl.Name(), func() (time.Duration, *fwk.Status) {
			s, timeout := pl.Permit(ctx, state, pod, nodeName)
			return timeout, s
		})
		switch {
		case s.IsSuccess():
		case s.IsWait():
			waitTimes[pl.Name()] = min(timeout, maxPermitTimeout)
			reasons = s.Reasons()
		default:
			return nil, logger.refusedOrFailed(schedmetrics.Permit, pl.Name(), pod, s).WithPlugin(pl.Name())
		}
	}
	if len(waitTimes) == 0 {
		return nil, nil
	}
	logger.V(4).Info("One or more plugins asked to wait and no plugin rejected the pod", "pod", klog.KObj(pod))
	status = fwk.NewStatus(fwk.Wait, reasons...)
	status.AppendReason("one or more plugins asked to wait and no plugin rejected pod")
	return waitTimes, status
}

// AddWaitingPod makes the pod wait for the plugins in waitTimes. The timeouts start now, and the
// first one that expires rejects the pod. It must be called when RunPermitPlugins returned Wait;
// WaitOnPermit removes the pod again.
func (f *Framework) AddWaitingPod(pod *corev1.Pod, waitTimes map[string]time.Duration) {
	f.cfg.WaitingPods.Add(pod, waitTimes)
}

// WillWaitOnPermit reports whether the pod is a waiting pod.
func (f *Framework) WillWaitOnPermit(_ context.Context, pod *corev1.Pod) bool {
	return f.cfg.WaitingPods.Get(pod.UID) != nil
}

// WaitOnPermit blocks until a waiting pod is allowed or rejected, and returns immediately for any
// other pod. The status is a refusal if the pod was rejected or timed out, and an error if it was
// preempted, ctx ended, or the process stops (ErrStopping).
func (f *Framework) WaitOnPermit(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	start := time.Now()
	status, waited := f.cfg.WaitingPods.Wait(ctx, pod.UID)
	if !waited {
		return nil
	}
	schedmetrics.PermitWaitDuration.WithLabelValues(status.Code().String()).Observe(time.Since(start).Seconds())
	logger := klog.FromContext(ctx)
	switch {
	case status.IsSuccess():
	case status.IsRejected():
		logger.V(4).Info("Pod rejected while waiting on permit", "pod", klog.KObj(pod), "status", status.Message())
	case errors.Is(status.AsError(), ErrStopping):
		logger.V(2).Info("Pod no longer waits on permit, as the scheduler stops", "pod", klog.KObj(pod))
	default:
		logger.Error(status.AsError(), "Failed waiting on permit for pod", "pod", klog.KObj(pod))
	}
	return status
}

// RejectWaitingPod rejects the waiting pod with that UID, and reports whether there was one that
// still waited.
func (f *Framework) RejectWaitingPod(uid types.UID) bool {
	return f.cfg.WaitingPods.Reject(uid)
}
