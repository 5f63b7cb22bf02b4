// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/timing"
)

// place decides on a node, assumes the pod there and runs the Reserve and Permit plugins. On
// failure nothing stays assumed or reserved. Otherwise commit must follow. A pod of a group is not
// assumed: its group is, as a whole, and commit or unreserve must follow.
func (c *cycle) place(ctx context.Context) (*binding.Cycle, *fwk.NominatingInfo, *fwk.Status) {
	logger := klog.FromContext(ctx)
	if err := c.updateSnapshot(ctx); err != nil {
		return nil, failure.ClearNomination, fwk.AsStatus(err)
	}
	c.nominated = !c.loop.Queue.Nominator().Empty()
	decision, nominating, status := c.decide(ctx)
	if c.resizes() { // its decision was recorded when it was placed
		return nil, nil, resizeFits(c.pod.Pod, status)
	}
	if !c.trial {
		c.record(ctx, &decision, status)
	}
	if !status.IsSuccess() {
		return nil, nominating, status
	}
	b := &binding.Cycle{
		Framework:      c.profile.Framework,
		Recorder:       c.profile.Recorder(),
		State:          c.state,
		Pod:            assumedCopy(c.pod, decision.SuggestedHost),
		NodeName:       decision.SuggestedHost,
		Start:          c.start,
		Decision:       c.decision,
		PodsToActivate: c.toActivate,
		EvaluatedNodes: decision.EvaluatedNodes,
		FeasibleNodes:  decision.FeasibleNodes,
		Extenders:      c.profile.Extenders,
	}
	c.class = decision.Class
	if devices.TakeFromNode(logger, c.state, b.Pod.Pod) {
		c.class = cache.Class{}
	}
	if !c.inGroup {
		if err := c.assume(logger, b.Pod.PodInfo); err != nil {
			c.loop.Decisions.Finish(c.decision, decisionlog.BindFailed)
			return nil, failure.ClearNomination, fwk.AsStatus(err)
		}
	}
	c.takeNomination()
	if status := c.reserveAndPermit(ctx, b); !status.IsSuccess() {
		c.loop.Decisions.Finish(c.decision, decisionlog.BindFailed)
		c.unreserve(ctx, b)
		if c.inGroup {
			c.endNomination(logger, b.NodeName)
		} else {
			c.forget(ctx, b)
			c.endNomination(logger, "") // its room on this node is free, too
		}
		return nil, failure.ClearNomination, binding.Refused(c.pod.Pod, b.NodeName, status)
	}
	return b, nil, nil
}

// unreserve lets the plugins undo what they have reserved for a pod.
func (c *cycle) unreserve(ctx context.Context, b *binding.Cycle) {
	ctx = context.WithoutCancel(ctx) // a timeout of the cycle must not keep plugins from undoing what they reserved
	pod := b.Pod.Pod
	if c.profile.Framework.RejectWaitingPod(pod.UID) {
		c.profile.Framework.WaitOnPermit(ctx, pod) // removes it from the waiting pods
	}
	c.profile.Framework.RunReservePluginsUnreserve(ctx, c.state, devices.Unwritten(pod, c.pod.Pod), b.NodeName)
}

// forget takes an assumed pod off its node.
func (c *cycle) forget(ctx context.Context, b *binding.Cycle) {
	if err := c.loop.Cache.ForgetPod(klog.FromContext(ctx), b.Pod.Pod); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Forgetting an assumed pod failed", "node", b.NodeName)
	}
}

// commit makes known that the pod is on its node, where other pods wait for that.
func (c *cycle) commit(logger klog.Logger, b *binding.Cycle) {
	c.groupState = nil // the binding cycle shares nothing with others
	c.state.SetPodGroupSchedulingCycle(nil)
	c.endNomination(logger, b.NodeName)
	c.activate(logger)
}

func (c *cycle) updateSnapshot(ctx context.Context) error {
	defer timing.From(ctx).Start().End(timing.Snapshot, "")
	return c.loop.Cache.UpdateSnapshot(klog.FromContext(ctx), c.loop.Snapshot)
}

// assume adds the pod to its node in the cache, by its class if the decision returned one.
func (c *cycle) assume(logger klog.Logger, pod *schedframework.PodInfo) error {
	if c.class.ID == 0 {
		return c.loop.Cache.AssumePod(logger, pod)
	}
	return c.loop.Cache.AssumePodOfClass(logger, pod.Pod, c.class)
}

// takeNomination ends the nomination of the pod, whose end must be reported, or taken back, later.
func (c *cycle) takeNomination() {
	c.nominatedTo = cmp.Or(c.loop.Queue.Nominator().NodeOf(c.pod.Pod.UID), c.nominatedTo)
	c.loop.Queue.Nominator().DeleteNominatedPodIfExists(c.pod.Pod)
}

// endNomination reports that the pod is no longer nominated. If it was nominated for another node,
// its room there is free for other pods now, and no other event wakes them. Its status may not name
// that node yet.
func (c *cycle) endNomination(logger klog.Logger, nodeName string) {
	pod := c.pod.Pod
	if nominated := cmp.Or(c.nominatedTo, pod.Status.NominatedNodeName); nominated != "" && nominated != nodeName {
		c.loop.Queue.NominationEnded(logger, pod, nominated)
		c.nominatedTo = ""
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
		if !c.inGroup && !c.loop.Queue.Wanted(c.pod.Pod) {
			// It was deleted before it waited, and the handler has not found it. assume of
			// groupCycle looks at the pods of a group.
			return fwk.AsStatus(fmt.Errorf("%v: %w", klog.KObj(c.pod.Pod), queue.ErrGone))
		}
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
