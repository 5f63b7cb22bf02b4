// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// GroupDryRuns is how many dry runs there may be for one group. A dry run takes tens of
// microseconds, in which no other pod is scheduled.
const GroupDryRuns = 50_000

// GroupMayPreempt reports whether pods of a group may preempt others for it. If not, message is the
// reason.
//
// No pod may have the preemption policy Never, or the group may not, if its own policy counts. No
// extender may take part in preemption: it does not see the pods of the group that have just been
// placed.
func (p *Plugin) GroupMayPreempt(group *podgroup.Group, pods []*corev1.Pod) (ok bool, message string) {
	if slices.ContainsFunc(p.handle.Extenders(), fwk.Extender.SupportsPreemption) {
		return false, "preemption: not supported for groups with an extender that takes part in preemption"
	}
	never := groupPreemptsNever(group)
	if !p.finder.policyCounts(group) {
		never = slices.ContainsFunc(pods, preemptsNever)
	}
	if never {
		return false, "preemption: " + policyNever
	}
	return true, ""
}

// overdueAfter is how long after its grace period a victim counts as one that may never end: its
// node may be lost, or it may have a finalizer.
const overdueAfter = time.Minute

// isOverdue reports whether a pod should have ended. Its deletion timestamp is the end of its grace
// period.
func (p *Plugin) isOverdue(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && p.clock.Since(pod.DeletionTimestamp.Time) > overdueAfter
}

// Awaited returns the victims that have to end before a pod of a group may preempt others again:
// the victims of its last preemption, and those evicted by another leader. None of them is overdue.
func (p *Plugin) Awaited(pod *corev1.Pod) []*corev1.Pod {
	victims := p.evictor.awaited(p.finder.snapshot, pod)
	if node, err := p.finder.snapshot.Get(pod.Status.NominatedNodeName); err == nil {
		for _, info := range node.GetPods() {
			if IsVictim(info.GetPod()) {
				victims = append(victims, info.GetPod())
			}
		}
	}
	return slices.DeleteFunc(victims, p.isOverdue)
}

// Victims are the pods on nodes that a group may preempt, and the groups of these: as they are when
// an attempt at the group begins. What the attempt hides later does not matter, because it hides
// all pods of a group that is evicted as a whole, or none.
type Victims struct {
	plugin *Plugin
	// owns reports whether a group is the one that preempts, or in the tree that does.
	owns func(podgroup.Key) bool
	// all are the groups, and others are those that it does not own.
	all, others *units
}

// VictimsFor returns the Victims of a group, or of all groups of a tree: owns reports whether a
// group is one of them.
func (p *Plugin) VictimsFor(owns func(podgroup.Key) bool) *Victims {
	all := p.finder.victims.current()
	return &Victims{plugin: p, owns: owns, all: all, others: all.without(owns)}
}

// MayHaveBelow reports whether a pod on a node may count with a priority below the given one.
func (p *Plugin) MayHaveBelow(priority int32) bool { return p.finder.victims.mayHaveBelow(priority) }

// Version changes with the groups of the pods, and so with what PriorityOf returns for a pod.
func (v *Victims) Version() uint64 { return v.all.versionOf() }

// PriorityOf returns the priority that counts for a pod when it may be evicted: that of its group,
// if it has one, or of the outermost composite group that this belongs to. It does not depend on
// who preempts, so that attempts can keep what they compute from it for other groups.
func (v *Victims) PriorityOf(pod *corev1.Pod) int32 { return v.all.priorityOf(pod) }

// mayEvict reports whether a victim of a lower priority may be evicted for a pod on a node: it is
// not of the same group, and none of its pods on the node is overdue. Dry runs call it
// concurrently.
func (v *Victims) mayEvict(node string, victim schedpreemption.Victim) bool {
	return !v.owns(podgroup.KeyOf(podOf(victim))) && !slices.ContainsFunc(victim.Pods(), func(info fwk.PodInfo) bool {
		pod := info.GetPod()
		return pod.Spec.NodeName == node && v.plugin.isOverdue(pod)
	})
}

// GroupTrial chooses victims for the pods of a group, one pod after the other. The caller takes the
// victims of each choice off the snapshot at once. If the group fits in the end, Preempt evicts
// them all; otherwise nothing was done to them.
//
// It belongs to the goroutine of the scheduling loop, and ends with the attempt at the group.
type GroupTrial struct {
	Trial
	plugin *Plugin
	from   *Victims
	// choices are those that are to be carried out.
	choices []*Choice
}

// NewTrial returns a trial for the group. intN returns a random number from 0 to n-1. After that
// many dry runs, Choose fails.
func (v *Victims) NewTrial(intN func(n int) int, dryRuns int) *GroupTrial {
	// All pods of the group look at the same nodes first, whose dry runs are known after the first.
	first := intN(math.MaxInt32)
	return &GroupTrial{plugin: v.plugin, from: v, Trial: Trial{
		finder: v.plugin.trialFinder(func(n int) int { return first % n }, dryRuns, v.mayEvict),
		groups: v.others,
	}}
}

// Evictable returns all pods on the nodes of a domain that may be evicted for a pod of the group.
func (g *GroupTrial) Evictable(domain podgroup.Domain, preemptor *corev1.Pod) (pods []*corev1.Pod) {
	priority := corev1helpers.PodPriority(preemptor)
	for i := range g.snapshot.Slots() {
		slot := cache.Slot(i)
		if !g.snapshot.Alive(slot) || !domain.Contains(g.snapshot.Info(slot).Node()) {
			continue
		}
		for _, info := range g.snapshot.Info(slot).Pods {
			pod := info.GetPod()
			if g.from.PriorityOf(pod) < priority && !g.from.owns(podgroup.KeyOf(pod)) && !g.plugin.isOverdue(pod) {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// Choose chooses a node and victims for a pod of the group that fits nowhere. state and statuses
// come from its decision. The victims include the other pods of groups that are evicted as a
// whole, which may be on other nodes. It returns nil if preemption does not help. The error is
// ErrTooManyDryRuns, or comes from a plugin or from a context that ended.
func (g *GroupTrial) Choose(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	statuses fwk.NodeToStatusReader) (*Choice, error) {
	if !g.plugin.MayHaveBelow(corev1helpers.PodPriority(pod)) {
		return nil, nil
	}
	choice, err := g.choose(ctx, state, pod, statuses)
	if choice == nil || err != nil {
		return nil, err
	}
	g.disruptions.plan(choice.Victims)
	g.choices = append(g.choices, choice)
	return choice, nil
}

// DryRunsLeft returns how many dry runs there still may be.
func (g *GroupTrial) DryRunsLeft() int { return max(0, g.left) }

// AllowDryRuns allows so many more dry runs.
func (g *GroupTrial) AllowDryRuns(n int) { g.left += n }

// Choices returns the choices that are to be carried out, the most important victims first:
// first the ones that no disruption budget allows, and then the ones of the highest priority.
func (g *GroupTrial) Choices() []*Choice {
	choices := slices.Clone(g.choices)
	slices.SortStableFunc(choices, func(a, b *Choice) int {
		return cmp.Or(cmp.Compare(b.violations, a.violations),
			cmp.Compare(g.from.PriorityOf(b.Victims[0]), g.from.PriorityOf(a.Victims[0])))
	})
	return choices
}

// Keep replaces the choices that are to be carried out.
func (g *GroupTrial) Keep(choices []*Choice) { g.choices = choices }

// Compare compares what two trials for a group take away, as upstream compares nodes: by the number
// of victims that no disruption budget allows, by the highest priority, by the sum of priorities
// and by the number of victims. It is negative if this one takes less.
func (g *GroupTrial) Compare(other *GroupTrial) int {
	a, b := g.merit(), other.merit()
	return cmp.Or(
		cmp.Compare(a.violations, b.violations), cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.priorities, b.priorities), cmp.Compare(a.pods, b.pods),
	)
}

func (g *GroupTrial) merit() merit {
	var all extenderv1.Victims
	for _, choice := range g.Choices() {
		all.NumPDBViolations += choice.violations
		all.Pods = append(all.Pods, choice.Victims...)
	}
	return meritOf(&all)
}

// Empty reports whether no pod has to be evicted.
func (g *GroupTrial) Empty() bool { return len(g.choices) == 0 }

// Preempt begins to evict the victims of the choices, and returns their number. preemptor returns
// the pod of the group that is to be nominated for a node, or for another one if there is none for
// this one, and its node.
func (g *GroupTrial) Preempt(preemptor func(node string) (pod *corev1.Pod, nominated string)) (victims int) {
	var preemptions []*preemption // one for each pod, which waits for all of its victims
	for _, choice := range g.choices {
		victims += len(choice.Victims)
		pod, node := preemptor(choice.Node)
		next := newPreemption(pod, node, g.plugin.Name(), choice.Victims)
		i := slices.IndexFunc(preemptions, func(p *preemption) bool { return p.preemptor == pod })
		if i < 0 {
			preemptions = append(preemptions, next)
			continue
		}
		preemptions[i].victims = append(preemptions[i].victims, next.victims...)
	}
	g.plugin.evictor.begin(g.plugin.handle, preemptions...)
	schedmetrics.PreemptionAttempts.Inc()
	schedmetrics.PreemptionVictims.Observe(float64(victims))
	return victims
}
