// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// groupCycle is one attempt at the pods of a group. If enough of them get a node, all of these are
// bound, behind a barrier. Otherwise nothing of the attempt remains. Like a cycle, it belongs to
// the loop's goroutine.
type groupCycle struct {
	gang.Attempt
	loop    *Loop
	members members
	// state is what plugins keep for the members together.
	state *schedframework.CycleState
	// first is the number of the first decision that the attempt records.
	first decisionlog.Number
	// decision is that about the group as a whole. 0: members were tried, which are recorded.
	decision decisionlog.Number
	// retry means that the group is tried again after its back-off, whatever happens.
	retry bool
	// retryAfter is when the group is tried again, whatever happens. 0: retry counts.
	retryAfter time.Duration
}

// newGroupCycle returns the attempt at the group that was popped with a pod.
func (l *Loop) newGroupCycle(popped *queue.Popped) *groupCycle {
	instance, now := l.Profiles.Popped(popped.Settings), l.Clock.Now()
	g := &groupCycle{loop: l, state: schedframework.NewCycleState(), Attempt: gang.Attempt{
		Needed: popped.Group.Needed, Profile: instance, IntN: rand.IntN,
		DryRuns: preemption.GroupDryRuns,
		Memory:  &l.memory,
	}}
	if g.Tree = popped.Group.Tree; g.Tree != nil {
		g.Group, g.Leaves = g.Tree.Group, l.Groups.LeavesOf(g.Tree, 1+len(popped.Group.Others))
	} else {
		g.Group, g.On, _ = l.Groups.Get(popped.Group.Key)
	}
	pods := slices.Concat([]*schedframework.QueuedPodInfo{popped.Pod}, popped.Group.Others)
	members := make([]struct { // one allocation for all
		member
		cycle
	}, len(pods))
	for i, pod := range pods {
		m := &members[i]
		m.cycle = cycle{loop: l, profile: instance, pod: pod, start: now, inGroup: true, groupState: g.state,
			share: popped.Share}
		m.member.cycle = &m.cycle
		g.members = append(g.members, &m.member)
	}
	return g
}

// run is the scheduling cycle of the group. It returns the members that are to be bound. All others
// have been given back or released, and their profile released.
func (g *groupCycle) run(ctx context.Context) []*member {
	g.skip(ctx)
	if len(g.members) == 0 {
		return nil
	}
	began := g.loop.Clock.Now()
	g.first = g.loop.Decisions.Newest() + 1
	if len(g.members) < g.Needed {
		g.Outcomes = make([]gang.Outcome, len(g.members))
		g.tooFew(len(g.members))
		g.fail(ctx)
		return nil
	}
	fits := g.attempt(ctx)
	if !fits {
		g.record(began)
		g.makeRoom(ctx)
	}
	g.observe(began)
	g.noteCanary(fits)
	if !fits || !g.assume(ctx) {
		g.End(ctx)
		g.fail(ctx)
		return nil
	}
	return g.commit(ctx)
}

// attempt opens the overlay, in which all of the attempt happens, and places the members there.
func (g *groupCycle) attempt(ctx context.Context) (fits bool) {
	var err error
	if g.Overlay, err = g.loop.Cache.BeginOverlay(klog.FromContext(ctx), g.loop.Snapshot); err != nil {
		g.Why = gang.NewReason(g.Group.WithKind())
		g.Why.Err = err
		return false
	}
	return g.Place(ctx)
}

// observe measures the attempt, which has just been decided.
func (g *groupCycle) observe(began time.Time) {
	result := metrics.GroupScheduled
	switch {
	case g.Why != nil && g.Why.Err != nil:
		result = metrics.GroupFailed
	case g.Why != nil:
		result = metrics.GroupUnschedulable
	}
	metrics.PodGroupScheduling.WithLabelValues(g.Profile.SchedulerName(), result).
		Observe(g.loop.Clock.Since(began).Seconds())
}

// skip releases the members that need no node.
func (g *groupCycle) skip(ctx context.Context) {
	logger := klog.FromContext(ctx)
	g.members = slices.DeleteFunc(g.members, func(m *member) bool {
		if !m.cycle.skip(logger) {
			return false
		}
		m.release(logger)
		return true
	})
	g.Members = make([]fwk.PodInfo, len(g.members))
	for i, m := range g.members {
		g.Members[i] = m.pod.PodInfo
	}
	g.Decider = g.members
	g.Nominated = g.nominated()
	if g.Tree != nil {
		g.Needed = g.Least()
	}
}

// fail gives all members back to the queue. All have the reason of the first one that got no node.
// What may help any one of them may help the group, so all wait for the events of the plugins
// that refused one.
func (g *groupCycle) fail(ctx context.Context) {
	if g.Group.Topology.Required != "" || g.Tree != nil && g.Tree.RequiresTopology() {
		g.Why.AddPlugin(podgroup.TopologyGate)
	}
	placed, missing := g.loop.Groups.Placed(g.Group.Key)
	if placed > 0 && missing > 0 {
		g.Why.Message = fmt.Sprintf("%d of %d pods are bound, the others wait for room: %s", placed, placed+missing,
			g.Why.Message)
	}
	g.explain()
	for i, m := range g.members {
		m.cycle.fail(withPod(ctx, m.pod.Pod), m.nominating, g.statusOf(i))
	}
	switch {
	case g.retry:
		g.loop.Queue.RetryGroup(klog.FromContext(ctx), g.Group.Key)
	case g.retryAfter > 0: // also if the group is to keep room later, which the next attempt finds again
		g.loop.Queue.RetryGroupAt(g.Group.Key, g.loop.Clock.Now().Add(g.retryAfter))
	}
	for _, key := range g.groups() {
		g.reportFailed(key)
	}
}

// reportFailed reports in the object of a group that it got no nodes.
func (g *groupCycle) reportFailed(key podgroup.Key) {
	conditions := g.loop.GroupConditions
	placed, missing := g.loop.Groups.Placed(key)
	switch {
	case g.Why.Err != nil:
		conditions.Failed(key, g.Why.Err)
	case placed > 0 && missing > 0:
		conditions.Incomplete(key, g.Why.Message)
	case placed > 0:
		// The group has what it needs without these pods. It may not say so yet, if it was created
		// after its pods, or if another process has bound them.
		if barrier := g.loop.barriers[g.Group.Key]; barrier == nil || barrier.Decided() {
			conditions.Scheduled(key)
		}
	default:
		conditions.Unschedulable(key, g.Why.Message)
	}
}

// statusOf returns why a member is given back: for the reason of the group, unless the member met
// an error, or the group was placed without it.
func (g *groupCycle) statusOf(i int) *fwk.Status {
	status := g.Outcomes[i].Status
	if g.Why == nil || status != nil && !status.IsRejected() {
		return status
	}
	return g.Why.Of(g.members[i].pod.Pod)
}

// reportGroup reports the result of an attempt at a pod whose group is scheduled one by one.
func (c *cycle) reportGroup(status *fwk.Status) {
	key := podgroup.KeyOf(c.pod.Pod)
	switch {
	case key.Source != podgroup.Kubernetes:
	case status.IsSuccess():
		c.loop.GroupConditions.Scheduled(key)
	case status.IsRejected():
		c.loop.GroupConditions.Unschedulable(key, status.Message())
	default:
		c.loop.GroupConditions.Failed(key, status.AsError())
	}
}

// errFewerThanNeeded is the error of a group that needs more pods than when it was popped.
var errFewerThanNeeded = errors.New("more pods are needed now")

// barrier counts the pods that are to be bound as placed, and returns their barrier: the one of
// the pods of the group that may still be taken back, if there are any, or else a new one. It
// returns nil if there were such pods when the group was popped, and they were taken back since:
// then these pods are too few.
func (g *groupCycle) barrier(pods []*corev1.Pod) *binding.Barrier {
	l, key := g.loop, g.Group.Key
	maps.DeleteFunc(l.barriers, func(_ podgroup.Key, b *binding.Barrier) bool { return b.Decided() })
	count := func() {
		for _, pod := range pods {
			l.Groups.SetAssumed(pod)
		}
	}
	uncount := func() {
		// All of them at once: otherwise the first one to come back would find that the group has
		// what it needs, and would be bound alone.
		for _, pod := range pods {
			l.Groups.Undo(pod)
		}
	}
	began := l.Clock.Now()
	onBreak := func(reason error) {
		l.Queue.PauseGroup(key, l.Clock.Since(began))
		if !errors.Is(reason, context.Canceled) { // the process ends
			for _, key := range g.groupsOf(pods) {
				l.GroupConditions.Failed(key, reason)
			}
		}
		uncount()
	}
	if barrier := l.barriers[key]; barrier != nil {
		count() // before the barrier can break
		if barrier.Join(len(pods), onBreak) {
			return barrier
		}
		uncount()
	}
	if g.needsMoreThan(pods) {
		return nil
	}
	count()
	needed := g.Needed
	if g.Tree != nil {
		needed = len(pods) // which ones a tree could do without depends on all of them
	}
	groups := g.groupsOf(pods)
	barrier := binding.NewBarrier(binding.BarrierConfig{
		Group: key, Needed: needed, Pods: len(pods), Timeout: g.Group.Timeout,
		Exists: func(pod *corev1.Pod) bool {
			assumed, err := l.Cache.IsAssumedPod(pod)
			return err == nil && assumed
		},
		OnOpen: func() {
			for _, key := range groups {
				l.GroupConditions.Scheduled(key)
			}
		},
		OnBreak: onBreak,
	})
	if l.barriers == nil {
		l.barriers = map[podgroup.Key]*binding.Barrier{}
	}
	l.barriers[key] = barrier
	return barrier
}

// tooFew sets the reason of a group that has lost pods since it was popped: too few are left. The
// queue compares them with what the group needs again.
func (g *groupCycle) tooFew(left int) {
	g.Why = gang.NewReason(fmt.Sprintf("%s: %d pods fit, but other pods of the group are gone since",
		g.Group.WithKind(), left))
	g.Why.Err = errFewerThanNeeded
}

// assume assumes the members that have a node in the cache, and puts them behind a barrier. If that
// fails, none of them is assumed, all are taken back, and Why is set. Members that have been
// deleted, or are about to be, since they were popped do not count, as they will not be bound.
func (g *groupCycle) assume(ctx context.Context) bool {
	var pods []*corev1.Pod
	var gone []int
	for i, m := range g.members {
		switch {
		case m.placed == nil:
		case g.loop.Queue.Wanted(m.pod.Pod):
			pods = append(pods, m.placed.Pod.Pod)
		default:
			gone = append(gone, i)
		}
	}
	if len(pods) < g.Needed || g.Tree != nil && len(gone) > 0 {
		g.tooFew(len(pods))
		g.TakeBack(ctx)
		return false
	}
	if err := g.Overlay.Commit(); err != nil {
		g.tooFew(len(pods))
		g.Why.Err = err
		g.TakeBack(ctx)
		return false
	}
	for _, i := range gone {
		g.forget(ctx, g.members[i])
		g.Drop(ctx, i)
		g.Outcomes[i] = gang.Outcome{Status: gang.NewReason("the pod is being deleted").Of(g.members[i].pod.Pod)}
	}
	if barrier := g.barrier(pods); barrier != nil {
		for _, m := range g.members {
			if m.placed != nil {
				m.placed.Barrier = barrier
			}
		}
		return true
	}
	for _, m := range g.members {
		if m.placed != nil {
			g.forget(ctx, m)
		}
	}
	g.tooFew(len(pods))
	g.TakeBack(ctx)
	return false
}

// forget takes a member that was assumed off its node.
func (g *groupCycle) forget(ctx context.Context, m *member) {
	m.cycle.forget(withPod(ctx, m.pod.Pod), m.placed)
}

// commit makes the placement known, and returns the members that have a node. The others have their
// own reasons, and are tried again by themselves.
func (g *groupCycle) commit(ctx context.Context) []*member {
	logger := klog.FromContext(ctx)
	var placed []*member
	for _, m := range g.members {
		if m.placed != nil {
			placed = append(placed, m)
			m.cycle.commit(logger, m.placed)
		}
	}
	g.loop.keeping.end(g.Group.Key, g.loop.Clock.Now())
	g.explainOtherDomains()
	for _, key := range g.groups() {
		g.loop.Queue.GroupChanged(logger, key)
	}
	g.reportLeftOver()
	g.deleteLeftOver(ctx)
	// This attempt evicts no pods for the members that are left over. The next one does, and there
	// may be no event that begins it.
	retry := false
	for i, m := range g.members {
		if m.placed == nil {
			retry = retry || g.MayPreempt(m.pod.Pod)
			m.cycle.fail(withPod(ctx, m.pod.Pod), m.nominating, g.statusOf(i))
		}
	}
	if retry {
		g.loop.Queue.RetryGroup(logger, g.Group.Key)
	}
	return placed
}

// withPod returns a context whose logger names a pod.
func withPod(ctx context.Context, pod *corev1.Pod) context.Context {
	return klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod)))
}
