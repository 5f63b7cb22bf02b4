// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Plugin is the DefaultPreemption plugin of one instance of a profile. The embedded upstream plugin
// chooses the victims; the process's Evictor evicts them.
//
// PostFilter belongs to the goroutine of the scheduling loop. PreEnqueue may be called by any
// goroutine.
type Plugin struct {
	*defaultpreemption.DefaultPreemption
	handle    Handle
	evictor   *Evictor
	clock     clock.PassiveClock
	finder    finder
	noVictims noVictims
}

// Handle is the handle of the instance.
type Handle interface {
	fwk.Handle
	// Within returns the handle with extenders whose calls end with ctx, and share its budget.
	// Upstream calls the extenders of its handle without a context.
	Within(ctx context.Context) fwk.Handle
}

var (
	_ framework.DeferredPreFilterPlugin = &Plugin{}
	_ fwk.PreEnqueuePlugin              = &Plugin{}
	_ fwk.EnqueueExtensions             = &Plugin{}
)

// New returns the Plugin that replaces pl. It changes pl, which the caller must not use afterwards.
// handle is the one that pl was built with. groups are those that pods on nodes may belong to; nil:
// none. evictor is nil if the Plugin is only for Trials. budgets are those of the cluster.
func New(
	pl *defaultpreemption.DefaultPreemption, handle Handle, snapshot *cache.Snapshot, nominator framework.Nominator,
	groups *podgroup.Registry, evictor *Evictor, budgets *Budgets,
	clock clock.PassiveClock,
) *Plugin {
	pl.Executor = newExecutor(handle, false)
	d := &disruptions{Budgets: budgets}
	pl.Evaluator = schedpreemption.NewEvaluator(pl.Evaluator.PluginName, handle, rules{pl.Evaluator.Interface, d},
		pl.Executor)
	pl.Evaluator.PdbLister = nil // see rules
	known := newDryRuns()
	if evictor != nil {
		known = evictor.dryRuns
	}
	return &Plugin{
		DefaultPreemption: pl, handle: handle, evictor: evictor, clock: clock,
		finder: finder{evaluator: pl.Evaluator, snapshot: snapshot, nominator: nominator, dryRuns: known,
			number: finders.Add(1), intN: rand.IntN, left: math.MaxInt, disruptions: d,
			victims: newVictimGroups(snapshot, groups), groupExecutor: newExecutor(handle, true),
			groupPolicies: utilfeature.DefaultFeatureGate.Enabled(features.PodGroupPreemptionPolicy)},
	}
}

// PostFilter chooses the node to preempt pods on, begins the eviction of its victims, and returns
// the node as the one to nominate. While victims of the pod's last preemption are still leaving
// nodes that may take the pod, it waits for them and preempts no other pods.
func (p *Plugin) PostFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	defer schedmetrics.PreemptionAttempts.Inc()
	if slices.ContainsFunc(p.evictor.awaited(p.finder.snapshot, pod), func(victim *corev1.Pod) bool {
		return statuses.Get(victim.Spec.NodeName).Code() != fwk.UnschedulableAndUnresolvable
	}) {
		return nil, fwk.NewStatus(fwk.Unschedulable, VictimsTerminating)
	}
	message, hopeless := p.noVictims.message(&p.finder, framework.ReadRefusals(state).Version, pod, statuses)
	var node fwk.NodeInfo
	var groups *units
	if !hopeless {
		groups = p.finder.victims.current()
		node, message = p.chooseNode(ctx, state, pod, statuses, groups)
	}
	switch {
	case message != "":
		return schedframework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable, message)
	case node != nil:
		if result, status := p.preempt(ctx, state, pod, onlyNode{statuses, node}, groups); status.IsSuccess() {
			return result, status
		}
	}
	return p.preempt(ctx, state, pod, statuses, groups)
}

// RunsDeferredPreFilter implements framework.DeferredPreFilterPlugin: a pod that cannot preempt
// others needs no state.
func (p *Plugin) RunsDeferredPreFilter() {}

// preempt lets upstream's evaluator choose the node and the victims, and begins their eviction. It
// does not call PostFilter of the embedded plugin, whose rules for pods of a group do not
// apply: such pods come here only if they are scheduled one by one.
func (p *Plugin) preempt(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader, groups *units,
) (*fwk.PostFilterResult, *fwk.Status) {
	within, chosen := *p.Evaluator, &collector{}
	within.Handler = p.handle.Within(ctx)
	evaluator := p.finder.evaluatorFor(&within, groups)
	if groups != nil {
		statuses = withStandIns{statuses, groups}
	}
	if framework.HasDeferredPreFilter(state) { // only the dry runs read the state
		all := within.Handler.MutableSnapshotSharedLister().NodeInfos()
		nodes, err := statuses.NodesForStatusCode(all, fwk.Unschedulable)
		if err == nil && len(nodes) > 0 {
			err = framework.RunDeferredPreFilter(ctx, state)
		}
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	result, status := evaluator.Preempt(context.WithValue(ctx, collectorKey{}, chosen), state, pod, statuses)
	if result == nil && status.Message() == policyNever && pod.Status.NominatedNodeName != "" {
		// Such a pod awaits no victims. It was nominated while it was being bound, by a process
		// that has ended since.
		result = schedframework.NewPostFilterResultWithNominatedNode("")
	}
	if message := status.Message(); message != "" { // also of a success
		status = fwk.NewStatus(status.Code(), "preemption: "+message)
	}
	switch {
	case !status.IsSuccess() || len(chosen.victims) == 0:
		return result, status
	case ctx.Err() != nil: // upstream may not have collected all victims
		return nil, fwk.AsStatus(context.Cause(ctx))
	}
	p.evictor.begin(p.handle, newPreemption(pod, chosen.node, p.Name(), chosen.victims))
	return result, status
}

// GatesUntilUngated implements queue.Ungater: the end of the evictions ungates the pod.
func (p *Plugin) GatesUntilUngated(pod *corev1.Pod) bool { return p.evictor.isEvicting(pod.UID) }

// AwaitedBy implements queue.Awaiter.
func (p *Plugin) AwaitedBy(victim types.UID) []types.UID { return p.evictor.preemptorsOf(victim) }

// PreEnqueue holds a pod back while its victims are being evicted.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if p.GatesUntilUngated(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, evicting)
	}
	return nil
}

// preemptsNever reports whether the policy of the pod, or that of its group, forbids preemption.
func (f *finder) preemptsNever(pod *corev1.Pod) bool {
	if group := f.victims.of(pod); group != nil && f.policyCounts(group) {
		return groupPreemptsNever(group)
	}
	return preemptsNever(pod)
}

// policyCounts reports whether the preemption policy of a group counts in place of those of its
// pods, as in kube-scheduler with the feature gate PodGroupPreemptionPolicy.
func (f *finder) policyCounts(group *podgroup.Group) bool {
	return f.groupPolicies && group.Source != podgroup.SchedulerPlugins
}

// groupPreemptsNever reports whether the policy of a group forbids preemption.
func groupPreemptsNever(group *podgroup.Group) bool {
	return ptr.Deref(group.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
}

// preemptsNever reports whether the pod's own policy forbids preemption.
func preemptsNever(pod *corev1.Pod) bool {
	return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
}
