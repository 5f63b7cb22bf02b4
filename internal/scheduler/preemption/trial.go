// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"cmp"
	"context"
	"errors"
	"math"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// Trial chooses nodes and victims as its Plugin does, to answer what would happen: it evicts
// no pods, asks no extender, and counts nothing in the metrics. It belongs to the goroutine that
// decides on the snapshot of the Plugin.
//
// Upstream leaves some choices to chance: the first node, and which of equally good nodes and
// equally important pods it takes. A Trial draws the first, and decides the others by the names of
// nodes and the UIDs of pods. So with the same draws, two Trials choose the same in the same state.
//
// It has dry runs of its own: their classes are of one fast path, which the Plugin may outlive.
type Trial struct {
	finder
	// groups are those of the pods on nodes if they stay as they are, and victims is nil.
	groups *units
}

// scanned is the number of nodes whose pods plugins can look at in the time of a dry run. They look
// at all nodes for each pod that fits nowhere.
const scanned = 50

// NewTrial returns a Trial. intN returns a random number from 0 to n-1. After that many dry runs,
// or other work that takes as long, Choose fails.
func (p *Plugin) NewTrial(intN func(n int) int, dryRuns int) *Trial {
	t := &Trial{finder: p.trialFinder(intN, dryRuns, nil)}
	t.victims = newVictimGroups(t.snapshot, p.finder.victims.registry)
	return t
}

// trialFinder returns the finder of a trial, with an evaluator of its own. Of the pods that
// upstream would evict, it evicts only those that mayEvict accepts; nil: all.
func (p *Plugin) trialFinder(intN func(n int) int, dryRuns int,
	mayEvict func(node string, victim schedpreemption.Victim) bool) finder {
	pl, evaluator := *p.DefaultPreemption, *p.Evaluator
	pl.MoreImportantVictim = moreImportant
	if eligible := pl.IsEligiblePod; mayEvict != nil {
		pl.IsEligiblePod = func(node fwk.NodeInfo, victim schedpreemption.Victim, preemptor *corev1.Pod) bool {
			return eligible(node, victim, preemptor) && mayEvict(node.Node().Name, victim)
		}
	}
	d := &disruptions{Budgets: p.finder.disruptions.Budgets}
	evaluator.Interface = rules{&pl, d}
	return finder{
		evaluator: &evaluator, snapshot: p.finder.snapshot, nominator: p.finder.nominator, dryRuns: newDryRuns(),
		intN: intN, byName: true, left: dryRuns, disruptions: d,
		groupExecutor: p.finder.groupExecutor, groupPolicies: p.finder.groupPolicies,
	}
}

// ErrTooManyDryRuns means that a Trial has done as many dry runs as it may. From then on, MayHelp
// returns false.
var ErrTooManyDryRuns = errors.New("too many dry runs of preemptions")

// errDryRun means that a plugin failed in a dry run. PostFilter leaves such a pod to upstream.
var errDryRun = errors.New("a plugin failed in a dry run of a preemption")

// Choice is a node with the pods that would be evicted from it.
type Choice struct {
	Node string
	// Victims are in the order of their importance, the most important first. They include those
	// that are being deleted already.
	Victims []*corev1.Pod
	// violations is the number of victims that no disruption budget allows.
	violations int64
}

// MayHelp reports whether a pod may preempt others, as far as is known without its refusals.
func (t *Trial) MayHelp(pod *corev1.Pod) bool {
	return t.left >= 0 && !t.preemptsNever(pod) && t.victims.mayHaveBelow(corev1helpers.PodPriority(pod))
}

// Choose chooses for a pod that fits nowhere. state and statuses come from its decision. It
// returns nil if preemption does not help, or if the pod waits for the victims of an earlier
// preemption. The error is ErrTooManyDryRuns, or comes from a plugin or from a context that ended.
func (t *Trial) Choose(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	statuses fwk.NodeToStatusReader) (*Choice, error) {
	if !t.MayHelp(pod) {
		return nil, nil
	}
	evaluator := t.evaluatorFor(t.evaluator, t.victims.current())
	if ok, _ := evaluator.PodEligibleToPreemptOthers(ctx, pod, statuses.Get(pod.Status.NominatedNodeName)); !ok {
		return nil, nil
	}
	if !t.allows(t.snapshot.NumNodes() / scanned) {
		return nil, ErrTooManyDryRuns
	}
	return t.choose(ctx, state, pod, statuses)
}

// choose is Choose for a pod that may preempt others.
func (t *Trial) choose(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	statuses fwk.NodeToStatusReader) (*Choice, error) {
	groups := t.groups
	if t.victims != nil {
		groups = t.victims.current()
	}
	s, err := t.newSearch(state, pod, statuses, groups)
	if err != nil {
		return nil, err
	}
	if len(s.known.potential) == 0 {
		return nil, nil
	}
	slot, found, ok := s.choose(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case t.left < 0:
		return nil, ErrTooManyDryRuns
	case !ok:
		return nil, errDryRun
	case !found:
		return nil, nil
	}
	result := s.known.resultOn(slot)
	victims := s.podsOf(result)
	if victims == nil {
		return nil, errDryRun
	}
	return &Choice{Node: s.nameOf(slot), Victims: victims, violations: result.merit.violations}, nil
}

// merit is what upstream compares candidates by.
type merit struct {
	violations, priorities int64
	// highest is the highest priority, first that of the first pod. They differ if a group counts
	// with a higher priority than its pods.
	highest, first int32
	pods           int
	// started is the earliest start among the pods of the highest priority.
	started int64
}

// compare compares two candidates as upstream does. It is negative if a is to be taken.
func (a *merit) compare(b *merit) int {
	return cmp.Or(
		cmp.Compare(a.violations, b.violations), cmp.Compare(a.first, b.first), cmp.Compare(a.priorities, b.priorities),
		cmp.Compare(a.pods, b.pods), cmp.Compare(b.started, a.started),
	)
}

func meritOf(victims *extenderv1.Victims) merit {
	m := merit{violations: victims.NumPDBViolations, highest: math.MinInt32, pods: len(victims.Pods),
		started: math.MaxInt64}
	if len(victims.Pods) > 0 {
		m.first = corev1helpers.PodPriority(victims.Pods[0])
	}
	for _, pod := range victims.Pods {
		priority := corev1helpers.PodPriority(pod)
		m.priorities += int64(priority) - math.MinInt32 // never negative: more pods are more
		if priority > m.highest {
			m.highest, m.started = priority, math.MaxInt64
		}
		if priority == m.highest {
			m.started = min(m.started, startOf(pod))
		}
	}
	return m
}

// podOf returns the first pod of a victim, and the only one if it is not a group that is evicted as
// a whole.
func podOf(victim schedpreemption.Victim) *corev1.Pod { return victim.Pods()[0].GetPod() }

// moreImportant orders victims as upstream does, and those that are equally important by the UIDs
// of their first pods.
func moreImportant(a, b schedpreemption.Victim) bool {
	return cmp.Or(
		cmp.Compare(b.Priority(), a.Priority()), cmp.Compare(rankOf(b), rankOf(a)),
		cmp.Compare(len(b.Pods()), len(a.Pods())), cmp.Compare(earliestOf(a), earliestOf(b)),
		cmp.Compare(podOf(a).UID, podOf(b).UID),
	) < 0
}

// rankOf returns how important the kind of a victim is.
func rankOf(v schedpreemption.Victim) int {
	switch v.Type() {
	case fwk.CompositePodGroupKeyType:
		return 2
	case fwk.PodGroupKeyType:
		return 1
	default:
		return 0
	}
}

// earliestOf returns when the first pod of a victim was started.
func earliestOf(v schedpreemption.Victim) int64 {
	earliest := int64(math.MaxInt64)
	for _, info := range v.Pods() {
		earliest = min(earliest, startOf(info.GetPod()))
	}
	return earliest
}

// startOf returns when a pod was started. One that has not been started is the latest.
func startOf(pod *corev1.Pod) int64 {
	if pod.Status.StartTime == nil {
		return math.MaxInt64
	}
	return pod.Status.StartTime.UnixNano()
}
