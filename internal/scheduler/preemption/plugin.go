// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Plugin is the DefaultPreemption plugin of one instance of a profile. The embedded upstream plugin
// chooses the victims; the process's Evictor evicts them.
//
// PostFilter belongs to the goroutine of the scheduling loop. PreEnqueue may be called by any
// goroutine.
type Plugin struct {
	*defaultpreemption.DefaultPreemption
	handle    fwk.Handle
	evictor   *Evictor
	collector *collector
	noVictims noVictims
	dryRuns   dryRuns
	// mayEvict restricts the victims further during the dry runs for a group. nil: it does not.
	mayEvict func(victim, preemptor *corev1.Pod) bool
}

var (
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.PreEnqueuePlugin  = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
)

// New returns the Plugin that replaces pl. It changes pl, which the caller must not use afterwards.
// handle is the one that pl was built with.
func New(pl *defaultpreemption.DefaultPreemption, handle fwk.Handle, evictor *Evictor) *Plugin {
	collector := &collector{}
	pl.Executor = collector.executor(handle)
	pl.Evaluator = schedpreemption.NewEvaluator(pl.Evaluator.PluginName, handle, pl.Evaluator.Interface, pl.Executor)
	pl.Evaluator.PdbLister = budgetLister{pl.Evaluator.PdbLister}
	p := &Plugin{DefaultPreemption: pl, handle: handle, evictor: evictor, collector: collector}
	eligible := pl.IsEligiblePod
	pl.IsEligiblePod = func(node fwk.NodeInfo, victim fwk.PodInfo, preemptor *corev1.Pod) bool {
		return eligible(node, victim, preemptor) && (p.mayEvict == nil || p.mayEvict(victim.GetPod(), preemptor))
	}
	return p
}

// PostFilter chooses the node to preempt pods on, begins the eviction of its victims, and returns
// the node as the one to nominate. While victims of the pod's last preemption are still leaving its
// nominated node, the pod waits for them and preempts no other pods.
func (p *Plugin) PostFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	p.Evaluator.Handler = inCycle(ctx, p.handle)
	if slices.ContainsFunc(p.evictor.awaited(pod), func(victim *corev1.Pod) bool {
		return statuses.Get(victim.Spec.NodeName).Code() != fwk.UnschedulableAndUnresolvable
	}) {
		schedmetrics.PreemptionAttempts.Inc()
		return nil, fwk.NewStatus(fwk.Unschedulable, VictimsTerminating)
	}
	refusals := framework.ReadRefusals(state)
	if message, ok := p.noVictims.message(p.evictor.Snapshot, refusals.Version, pod, statuses); ok {
		return noCandidate(message)
	}
	node, message := p.chooseNode(ctx, state, refusals, pod, statuses)
	switch {
	case message != "":
		return noCandidate(message)
	case node != nil:
		if result, status := p.preempt(ctx, state, pod, onlyNode{statuses, node}, p.Evaluator.Preempt); status.IsSuccess() {
			schedmetrics.PreemptionAttempts.Inc()
			return result, status
		}
	}
	return p.preempt(ctx, state, pod, statuses, p.chooseAnyNode)
}

// chooseAnyNode is PostFilter of the embedded plugin without its rules for pods of a group: such
// pods come here only if they are scheduled one by one.
func (p *Plugin) chooseAnyNode(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	defer schedmetrics.PreemptionAttempts.Inc()
	result, status := p.Evaluator.Preempt(ctx, state, pod, statuses)
	if message := status.Message(); message != "" {
		status = fwk.NewStatus(status.Code(), "preemption: "+message)
	}
	return result, status
}

// cycleHandle is a handle whose extenders belong to one scheduling cycle.
type cycleHandle struct {
	fwk.Handle
	extenders []fwk.Extender
}

func (h cycleHandle) Extenders() []fwk.Extender { return h.extenders }

// inCycle returns the handle for one scheduling cycle: upstream calls the extenders of the handle
// without a context, but these calls must end with the cycle and share its budget for extenders.
func inCycle(ctx context.Context, handle fwk.Handle) fwk.Handle {
	all := handle.Extenders()
	if len(all) == 0 {
		return handle
	}
	bound := make([]fwk.Extender, len(all))
	for i, extender := range all {
		bound[i] = extender
		if e, ok := extender.(interface {
			Within(context.Context) fwk.Extender
		}); ok {
			bound[i] = e.Within(ctx)
		}
	}
	return cycleHandle{handle, bound}
}

// choice is upstream's choice of a node and victims: that of its plugin, which counts the attempt,
// or that of the plugin's evaluator, which does not.
type choice func(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status)

// preempt lets upstream choose the node and the victims, and begins their eviction.
func (p *Plugin) preempt(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader, choose choice,
) (*fwk.PostFilterResult, *fwk.Status) {
	p.collector.reset()
	result, status := choose(ctx, state, pod, statuses)
	node, victims := p.collector.collected()
	switch {
	case !status.IsSuccess() || len(victims) == 0:
		return result, status
	case ctx.Err() != nil: // upstream may not have collected all victims
		return nil, fwk.AsStatus(context.Cause(ctx))
	}
	p.evictor.begin(p.handle, newPreemption(pod, node, p.Name(), victims))
	return result, status
}

// PreEnqueue holds a pod back while its victims are being evicted.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if p.evictor.isEvicting(pod.UID) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, evicting)
	}
	return nil
}

// preemptsNever reports whether the pod's policy forbids preemption.
func preemptsNever(pod *corev1.Pod) bool {
	return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
}
