// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// asyncPreemption is upstream's DefaultPreemption, which decides whom to preempt, with the
// process's preemptions, which carry that out (KEP-4832). Upstream's own executor does not fit: it
// keeps its state in the instance, it may leave a preemptor behind whose victims are gone, and its
// metrics measure nothing; see preemptions.
type asyncPreemption struct {
	*defaultpreemption.DefaultPreemption
	handle  *Handle
	shared  *preemptions
	futile  futility
	dryRuns dryRuns
}

var (
	_ fwk.PostFilterPlugin  = &asyncPreemption{}
	_ fwk.PreEnqueuePlugin  = &asyncPreemption{}
	_ fwk.EnqueueExtensions = &asyncPreemption{}
)

const (
	preemptionUnderWay = "waiting for the preemption for this pod to be finished"
	// victimsLeaving is upstream's message for a pod whose victims are terminating.
	victimsLeaving = "preemption: not eligible due to a terminating pod on the nominated node."
)

// newAsyncPreemption takes the executor out of an instance. What takes its place runs within the
// PostFilter call and only notes the victims, in the plan of that call.
func newAsyncPreemption(pl *defaultpreemption.DefaultPreemption, handle *Handle, shared *preemptions) *asyncPreemption {
	synchronous := features()
	synchronous.EnableAsyncPreemption = false
	pl.Executor = preemption.NewExecutor(noNominations{handle}, synchronous)
	pl.Executor.PreemptPod = func(ctx context.Context, c preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) error {
		ctx.Value(planKey{}).(*plan).add(c.Name(), victim)
		return nil
	}
	pl.Evaluator = preemption.NewEvaluator(pl.Evaluator.PluginName, handle, pl.Evaluator.Interface, pl.Executor)
	return &asyncPreemption{DefaultPreemption: pl, handle: handle, shared: shared}
}

// PostFilter decides whom to preempt, has that begun, and returns the node that the pod is
// nominated for. While victims of an earlier preemption are on their way out of that node it waits
// for them rather than preempting more.
func (a *asyncPreemption) PostFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	if a.shared.awaitsVictims(pod, statuses) {
		schedmetrics.PreemptionAttempts.Inc()
		return nil, fwk.NewStatus(fwk.Unschedulable, victimsLeaving)
	}
	if result, status, ok := a.futile.answer(a.handle.SnapshotSharedLister(), framework.ReadRefusals(state).Version, pod, statuses); ok {
		schedmetrics.PreemptionAttempts.Inc()
		return result, status
	}
	node, inVain := a.choose(ctx, state, pod, statuses)
	switch {
	case inVain != "":
		schedmetrics.PreemptionAttempts.Inc()
		return noNode(inVain)
	case node != nil:
		if result, status := a.decide(ctx, state, pod, oneNode{statuses, node}); status.IsSuccess() {
			return result, status
		}
	}
	return a.decide(ctx, state, pod, statuses)
}

// decide has upstream decide whom to preempt, and that begun.
func (a *asyncPreemption) decide(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	decided := &plan{preemptor: pod, plugin: a.Name()}
	result, status := a.DefaultPreemption.PostFilter(context.WithValue(ctx, planKey{}, decided), state, pod, statuses)
	switch {
	case !status.IsSuccess() || len(decided.victims) == 0:
		return result, status
	case ctx.Err() != nil: // the list of victims may be incomplete
		return nil, fwk.AsStatus(context.Cause(ctx))
	}
	a.shared.begin(a.handle, decided)
	return result, status
}

// PreEnqueue holds a pod back while its victims are being evicted.
func (a *asyncPreemption) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if a.shared.holds(pod.UID) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, preemptionUnderWay)
	}
	return nil
}

// plan is what one call of PostFilter decides. The executor adds to it from several goroutines.
type plan struct {
	preemptor *corev1.Pod
	plugin    string

	mu      sync.Mutex // guards what follows while PostFilter runs
	node    string
	victims []*corev1.Pod
}

// planKey is the key of the plan in the context of a PostFilter call.
type planKey struct{}

func (p *plan) add(node string, victim *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node = node
	p.victims = append(p.victims, victim)
}

// noNominations hides nominated pods from the executor: it would take nominations back, by calls to
// the API server, while the scheduling loop waits.
type noNominations struct{ *Handle }

func (noNominations) NominatedPodsForNode(string) []fwk.PodInfo { return nil }
