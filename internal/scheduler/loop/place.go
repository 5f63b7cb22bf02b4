// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/timing"
)

// place decides on a node, assumes the pod there and runs the Reserve and Permit plugins. On
// failure nothing stays assumed or reserved.
func (c *cycle) place(ctx context.Context) (*binding.Cycle, *fwk.NominatingInfo, *fwk.Status) {
	logger := klog.FromContext(ctx)
	if err := c.updateSnapshot(ctx); err != nil {
		return nil, failure.ClearNomination, fwk.AsStatus(err)
	}
	result, nominating, status := c.decide(ctx)
	c.record(ctx, &result, status)
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
		c.loop.Decisions.Finish(c.decision, decisionlog.BindFailed)
		return nil, failure.ClearNomination, fwk.AsStatus(err)
	}
	c.endNomination(logger, b.NodeName)
	if status := c.reserveAndPermit(ctx, b); !status.IsSuccess() {
		c.loop.Decisions.Finish(c.decision, decisionlog.BindFailed)
		// A timeout of the cycle must not keep plugins from undoing what they reserved.
		c.profile.Framework.RunReservePluginsUnreserve(context.WithoutCancel(ctx), c.state, b.Pod.Pod, b.NodeName)
		if err := c.loop.Cache.ForgetPod(logger, b.Pod.Pod); err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Forgetting an assumed pod failed", "node", b.NodeName)
		}
		return nil, failure.ClearNomination, binding.Refused(c.pod.Pod, b.NodeName, status)
	}
	c.activate(logger)
	return b, nil, nil
}

func (c *cycle) updateSnapshot(ctx context.Context) error {
	defer timing.From(ctx).Start().End(timing.Snapshot, "")
	return c.loop.Cache.UpdateSnapshot(klog.FromContext(ctx), c.loop.Snapshot)
}

// assume adds the pod to its node in the cache, by its class if the decision returned one.
func (c *cycle) assume(logger klog.Logger, pod *schedframework.PodInfo, class cache.Class) error {
	if class.ID == 0 {
		return c.loop.Cache.AssumePod(logger, pod)
	}
	return c.loop.Cache.AssumePodOfClass(logger, pod.Pod, class)
}

// endNomination removes the nomination of the pod, which is assumed on a node. If the pod was
// nominated for another node, its room there is free for other pods now, and no other event wakes
// them.
func (c *cycle) endNomination(logger klog.Logger, nodeName string) {
	pod := c.pod.Pod
	c.loop.Queue.DeleteNominatedPodIfExists(pod)
	if nominated := pod.Status.NominatedNodeName; nominated != "" && nominated != nodeName {
		c.loop.Queue.NominationEnded(logger, pod)
	}
}

// reserveAndPermit runs the Reserve and Permit plugins. A pod that has to wait is added to the
// waiting pods here, before its binding goroutine starts, so that plugins and preemption find it.
func (c *cycle) reserveAndPermit(ctx context.Context, b *binding.Cycle) *fwk.Status {
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

// activate moves the pods that plugins have named to the active queue.
func (c *cycle) activate(logger klog.Logger) {
	c.toActivate.Lock()
	defer c.toActivate.Unlock()
	if len(c.toActivate.Map) != 0 {
		c.loop.Queue.Activate(logger, c.toActivate.Map)
		c.toActivate.Map = map[string]*corev1.Pod{}
	}
}

// assumedCopy returns the queue's item with its pod put on a node. The copy is shallow: it shares
// everything below its spec with the informer's object, which must not change.
func assumedCopy(queued *schedframework.QueuedPodInfo, nodeName string) *schedframework.QueuedPodInfo {
	pod := *queued.Pod
	pod.Spec.NodeName = nodeName
	info := *queued.PodInfo
	info.Pod = &pod
	assumed := *queued
	assumed.PodInfo = &info
	return &assumed
}
