// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// groupCycle is one attempt at the pods of a group. Its members are placed one after the other,
// each on the cluster with those before it. If enough of them get a node, all of these are bound,
// behind a barrier. Otherwise those that got one are taken back, in reverse order, and nothing of
// the attempt remains. Like a cycle, it belongs to the loop's goroutine.
type groupCycle struct {
	loop *Loop
	// group is what the object of the group says, as far as there is one.
	group podgroup.Group
	// needed is how many members must get a node.
	needed  int
	members []*member
	// on are the nodes of pods of the group that have one already.
	on sets.Set[string]
	// why is the reason of an attempt that failed.
	why *groupReason
	// retry means that the group is tried again after its back-off, whatever happens.
	retry bool
}

// member is a pod of a groupCycle.
type member struct {
	*cycle
	// placed is set while the pod is assumed on a node.
	placed *binding.Cycle
	// status is why the pod got no node. It is nil for a pod that got one, or was not tried.
	status     *fwk.Status
	nominating *fwk.NominatingInfo
}

// newGroupCycle returns the attempt at the group that was popped with a pod.
func (l *Loop) newGroupCycle(popped *queue.Popped) *groupCycle {
	g := &groupCycle{loop: l, needed: popped.Group.Needed}
	g.group, g.on, _ = l.Groups.Get(popped.Group.Key)
	instance, now := l.Profiles.Popped(popped.Settings), l.Clock.Now()
	pods := slices.Concat([]*schedframework.QueuedPodInfo{popped.Pod}, popped.Group.Others)
	members := make([]struct { // one allocation for all
		member
		cycle
	}, len(pods))
	for i, pod := range pods {
		m := &members[i]
		m.cycle = cycle{loop: l, profile: instance, pod: pod, start: now, inGroup: true}
		m.member.cycle = &m.cycle
		g.members = append(g.members, &m.member)
	}
	return g
}

// run is the scheduling cycle of the group. It returns the members that are to be bound. All others
// have been given back or released, and their profile released.
func (g *groupCycle) run(ctx context.Context) []*member {
	g.skip(ctx)
	began := g.loop.Clock.Now()
	if !g.place(ctx) {
		g.preempt(ctx)
		g.observe(began)
		g.fail(ctx)
		return nil
	}
	g.observe(began)
	return g.commit(ctx)
}

// observe measures the attempt, which has just been decided.
func (g *groupCycle) observe(began time.Time) {
	if len(g.members) == 0 {
		return
	}
	result := metrics.GroupScheduled
	switch {
	case g.why != nil && g.why.err != nil:
		result = metrics.GroupFailed
	case !slices.ContainsFunc(g.members, func(m *member) bool { return m.placed != nil }):
		result = metrics.GroupUnschedulable
	}
	metrics.PodGroupScheduling.WithLabelValues(g.members[0].profile.SchedulerName(), result).Observe(g.loop.Clock.Since(began).Seconds())
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
}

// undo takes back the members that got a node. Nobody has seen them there: the loop has not looked
// at any other pod in the meantime.
func (g *groupCycle) undo(ctx context.Context) {
	for _, m := range slices.Backward(g.members) {
		if m.placed == nil {
			continue
		}
		g.loop.Decisions.Finish(m.decision, decisionlog.Unschedulable)
		m.cycle.undo(withPod(ctx, m.pod.Pod), m.placed)
		m.placed = nil
		if m.nominatedTo != "" {
			to := &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: m.nominatedTo}
			g.loop.Queue.Nominator().AddNominatedPod(klog.FromContext(ctx), m.pod.PodInfo, to)
		}
	}
}

// fail gives all members back to the queue. They have one reason: that of the first one that got no
// node. What may help any one of them may help the group, so all wait for the events of the plugins
// that refused one.
func (g *groupCycle) fail(ctx context.Context) {
	if g.why != nil && g.group.Topology.Required != "" {
		g.why.fit.Diagnosis.UnschedulablePlugins.Insert(podgroup.TopologyGate)
	}
	for _, m := range g.members {
		if m.status == nil || m.status.IsRejected() {
			m.status = g.why.of(m.pod.Pod)
		}
		m.cycle.fail(withPod(ctx, m.pod.Pod), m.nominating, m.status)
	}
	if g.retry {
		g.loop.Queue.RetryGroup(klog.FromContext(ctx), g.group.Key)
	}
	switch {
	case len(g.members) == 0: // nothing was tried
	case g.why.err != nil:
		g.loop.GroupConditions.Failed(g.group.Key, g.why.err)
	default:
		g.loop.GroupConditions.Unschedulable(g.group.Key, g.why.message)
	}
}

// reportGroup reports what became of a pod whose group is scheduled one by one.
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

// barrier counts the pods that are to be bound as placed, and returns their barrier: that of the
// pods of the group that may still be taken back, if there are any, or else a new one. It returns
// nil if there were such pods when the group was popped, and they were taken back since: then these
// pods are too few.
func (g *groupCycle) barrier(pods []*corev1.Pod) *binding.Barrier {
	l, key := g.loop, g.group.Key
	maps.DeleteFunc(l.barriers, func(_ podgroup.Key, b *binding.Barrier) bool { return b.Decided() })
	count := func() {
		for _, pod := range pods {
			l.Groups.SetAssumed(pod)
		}
	}
	onBreak := func() {
		// All of them at once: otherwise the first one to come back would find that the group has
		// what it needs, and would be bound alone.
		for _, pod := range pods {
			l.Groups.Undo(pod)
		}
	}
	if barrier := l.barriers[key]; barrier != nil {
		count() // before the barrier can break
		if barrier.Join(len(pods), onBreak) {
			return barrier
		}
		onBreak()
	}
	if needed, known := l.Groups.Needed(key); known && needed > len(pods) {
		return nil
	}
	count()
	barrier := binding.NewBarrier(key, g.needed, len(pods), g.group.Timeout, func(pod *corev1.Pod) bool {
		assumed, err := l.Cache.IsAssumedPod(pod)
		return err == nil && assumed
	}, onBreak)
	if l.barriers == nil {
		l.barriers = map[podgroup.Key]*binding.Barrier{}
	}
	l.barriers[key] = barrier
	return barrier
}

// commit makes the placement known, and returns the members that have a node. The others have their
// own reasons, and are tried again by themselves.
func (g *groupCycle) commit(ctx context.Context) []*member {
	logger := klog.FromContext(ctx)
	var placed []*member
	var assumed []*corev1.Pod
	for _, m := range g.members {
		if m.placed != nil {
			placed = append(placed, m)
			assumed = append(assumed, m.placed.Pod.Pod)
		}
	}
	barrier := g.barrier(assumed)
	if barrier == nil {
		g.why = newGroupReason(fmt.Sprintf("pod group %s: %d pods fit, but other pods of the group have lost their nodes since", g.group.Key, len(placed)))
		g.why.err = errFewerThanNeeded
		g.undo(ctx)
		g.fail(ctx)
		return nil
	}
	for _, m := range placed {
		m.placed.Barrier = barrier
		m.cycle.commit(logger, m.placed)
	}
	g.loop.Queue.GroupChanged(logger, g.group.Key)
	g.loop.GroupConditions.Scheduled(g.group.Key)
	for _, m := range g.members {
		if m.placed == nil {
			m.cycle.fail(withPod(ctx, m.pod.Pod), m.nominating, m.status)
		}
	}
	return placed
}

// withPod returns a context whose logger names a pod.
func withPod(ctx context.Context, pod *corev1.Pod) context.Context {
	return klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod)))
}
