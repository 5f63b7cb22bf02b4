// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// eventPodGroup is the label of moves that a change of a pod group causes.
const eventPodGroup = "PodGroupChange"

// PoppedGroup is the part of a pod group, or of a tree of groups, that Pop returns with its first
// pod.
type PoppedGroup struct {
	Key podgroup.Key
	// Tree is nil for a group that belongs to none.
	Tree *podgroup.Tree
	// Needed is the number of pods that must get a node together: at least 1 of a tree.
	Needed int
	// Others are the other pods of the group that are ready, in the order of the queue sort. They
	// were popped under the same settings, whose Holder was acquired for each of them. The caller
	// must release each by Done or Requeue.
	Others []*schedframework.QueuedPodInfo
}

// memberKey identifies the pods of a group in the queue. Pods with another scheduler name do not
// count: they are decided under other settings.
type memberKey struct {
	podgroup.Key
	schedulerName string
}

// members are the pods of a group that are in the queue. Queue.mu guards it.
//
// A pod is ready if its PreEnqueue plugins admit it, and it is not in flight. The pods of a group
// leave the gate of the group when enough of them are ready, and Pop takes all that are ready with
// the first of them.
type members struct {
	memberKey
	entries map[*entry]struct{}
	// awaited is what the gate of the group waits for; see awaitedLocked.
	awaited string
	// ready and held count the entries that are ready, and those among them that the gate of the
	// group holds.
	ready, held int
	// needed is how many pods of the group were needed when they were popped last.
	needed int
	// half means that some pods of the group have a node, but fewer than it needs.
	half bool
	// entity means that metrics count the group as one entity, not its pods: see classifyLocked.
	// Then at counts its waiting pods by place, and queue is the place in which the group counts.
	entity bool
	at     [places]int
	queue  Place
	// tendAt is when TendHeldGroups looks at the group next. Used while held is not 0.
	tendAt time.Time
}

// membership is the part of an entry that is about its group. Queue.mu guards it.
type membership struct {
	key   memberKey
	of    *members // nil: the pod names no group
	ready bool
	held  bool
	// half is the half of the members by which the heaps are in order.
	half bool
}

// groupOf returns the key of the group that a pod waits with, the zero Key if there is none. A pod
// that terminates waits for no group: the next attempt releases it. Nor does a pod that is on its
// node, and whose resize is deferred.
func groupOf(pod *corev1.Pod) podgroup.Key {
	if pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" {
		return podgroup.Key{}
	}
	return podgroup.KeyOf(pod)
}

// joinGroupLocked adds a pod to its group, if it has one.
func (q *Queue) joinGroupLocked(e *entry) {
	key := memberKey{Key: groupOf(e.pod), schedulerName: e.pod.Spec.SchedulerName}
	if q.groups == nil || key.Key == (podgroup.Key{}) {
		return
	}
	m := q.members[key]
	if m == nil {
		m = &members{memberKey: key, entries: map[*entry]struct{}{}}
		q.members[key] = m
	}
	m.entries[e] = struct{}{}
	e.member = membership{key: key, of: m, half: m.half}
	if m.entity {
		q.countInGroupLocked(e)
	}
	q.classifyLocked(e)
	if h := q.heapOf(e.place); h != nil {
		heap.Fix(h, e.index)
	}
	q.rankGroupLocked(m)
}

// rejoinGroupLocked adds a pod that comes back to the group that it waits with now. If that is its
// former one, the pod does not leave it: it may be the last one that keeps what is known of it.
func (q *Queue) rejoinGroupLocked(e *entry) {
	key := memberKey{Key: groupOf(e.pod), schedulerName: e.pod.Spec.SchedulerName}
	if e.member.of != nil && e.member.key == key {
		e.member.set(false, false)
		q.classifyLocked(e)
		q.rankGroupLocked(e.member.of)
		return
	}
	q.leaveGroupLocked(e)
	q.joinGroupLocked(e)
}

// rankGroupLocked notes whether a group is half placed, and gives its pods their places in the
// heaps: such a group is completed before others of its priority are placed. It must be called when
// the number of its pods with a node may have changed.
func (q *Queue) rankGroupLocked(m *members) {
	placed, missing := q.groups.Placed(m.Key)
	half := placed > 0 && missing > 0
	if half == m.half {
		return
	}
	m.half = half
	for e := range m.entries {
		e.member.half = half
		if h := q.heapOf(e.place); h != nil {
			heap.Fix(h, e.index)
		}
	}
}

// regroupLocked moves a pod that has changed to the group that it waits with now.
func (q *Queue) regroupLocked(logger klog.Logger, e *entry) {
	if groupOf(e.pod) == e.member.key.Key {
		return
	}
	q.leaveGroupLocked(e)
	q.joinGroupLocked(e)
	switch {
	case e.place == InFlight || e.failures > 0:
	case e.place != Gated:
		e.member.set(true, false)
		q.openGateLocked(logger, e.member.of)
	case e.info.GatingPlugin == podgroup.Gate:
		q.enqueueLocked(logger, e, afterBackoff, eventPodGroup)
	}
}

// leaveGroupLocked removes a pod from its group, if it has one.
func (q *Queue) leaveGroupLocked(e *entry) {
	m := e.member.of
	if m == nil {
		return
	}
	e.member.set(false, false)
	if m.entity {
		q.countAloneLocked(e)
	}
	delete(m.entries, e)
	if len(m.entries) == 0 {
		delete(q.members, e.member.key)
		q.holding.Delete(m)
	}
	e.member = membership{}
}

// isEntity reports whether metrics count the group of the pod in its place.
func (m *membership) isEntity() bool { return m.of != nil && m.of.entity }

// entityPlace returns the place in which metrics count the entity of the pod.
func (e *entry) entityPlace() Place {
	if e.member.isEntity() {
		return e.member.of.queue
	}
	return e.place
}

// foremost returns the place nearest to Pop in which the group has pods. A group counts there, with
// all of its pods: its pods may be in several places, but it counts once.
func (m *members) foremost() Place {
	for _, place := range []Place{Active, Backoff, ErrorBackoff, Unschedulable, Gated} {
		if m.at[place] > 0 {
			return place
		}
	}
	return nowhere
}

// classifyLocked makes the group of a pod one entity if its pods wait for each other, and otherwise
// has metrics count its pods. It must be called when that may have changed: PodGroups are served
// now, or the profile has other plugins.
func (q *Queue) classifyLocked(e *entry) {
	m := e.member.of
	if m == nil || m.entity == q.awaitsGroupLocked(e) {
		return
	}
	m.entity = !m.entity
	for other := range m.entries {
		if m.entity {
			q.countInGroupLocked(other)
		} else {
			q.countAloneLocked(other)
		}
	}
}

// countInGroupLocked has metrics count a pod with its group instead of by itself.
func (q *Queue) countInGroupLocked(e *entry) {
	addTo(q.metrics.pods[e.place], -1)
	q.metrics.movedInGroup(e.member.of, nowhere, e.place)
}

// countAloneLocked has metrics count a pod by itself instead of with its group.
func (q *Queue) countAloneLocked(e *entry) {
	q.metrics.movedInGroup(e.member.of, e.place, nowhere)
	addTo(q.metrics.pods[e.place], 1)
}

// set records whether the pod is ready, and whether the gate of its group holds it.
func (m *membership) set(ready, held bool) {
	if m.of == nil {
		return
	}
	m.of.ready += count(ready) - count(m.ready)
	m.of.held += count(held) - count(m.held)
	m.ready, m.held = ready, held
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// awaitsGroupLocked reports whether the pod may only be tried with its group. A plugin of the
// profile may take care of the groups of scheduler-plugins.
func (q *Queue) awaitsGroupLocked(e *entry) bool {
	m := e.member.of
	return m != nil && q.groups.Applies(m.Key) &&
		(m.Key.Source != podgroup.SchedulerPlugins || !e.profile.settings.IgnorePodGroups)
}

// unit is what a pod is tried with, as it was when enough pods were found to be ready: the objects
// of its groups may be gone a moment later.
type unit struct {
	// needed is how many pods of the group are needed, 0 for a pod that is scheduled by itself.
	needed int
	// tree is the tree of the group, nil if there is none, and ready are its groups that may be
	// tried.
	tree  *podgroup.Tree
	ready sets.Set[podgroup.Key]
}

// completeLocked reports whether enough pods of a group are ready. It is true for a pod that is
// scheduled by itself.
func (q *Queue) completeLocked(e *entry) (u unit, complete bool) {
	if !q.awaitsGroupLocked(e) {
		return unit{}, true
	}
	return q.enoughLocked(e.member.of)
}

// enoughLocked reports whether as many pods of a group are ready as are needed, and enough groups
// of its tree.
func (q *Queue) enoughLocked(m *members) (u unit, enough bool) {
	tree, problem := q.groups.TreeOf(m.Key)
	needed, known := q.groups.Needed(m.Key) // after TreeOf, which finds none for a group that is gone
	switch {
	case !known || m.ready < needed || problem != "":
		return unit{}, false
	case tree == nil:
		return unit{needed: needed}, true
	}
	ready, _ := tree.Ready(q.lacksLocked(m.schedulerName))
	return unit{needed, tree, ready}, ready.Has(m.Key)
}

// passGateLocked notes that the PreEnqueue plugins admit a pod. It reports whether enough of its
// group are ready, so that it may be tried.
//
// A pod that comes back from an attempt passes: it was ready together with others, which come back
// one after the other, and each keeps the place that its attempt has earned it. Pop looks again.
func (q *Queue) passGateLocked(e *entry) bool {
	e.member.set(true, false)
	if _, complete := q.completeLocked(e); complete || e.info.Attempts > 0 && !e.info.Gated() {
		return true
	}
	q.holdMemberLocked(e)
	return false
}

// holdMemberLocked notes that the gate of its group holds a pod.
func (q *Queue) holdMemberLocked(e *entry) {
	m := e.member.of
	if m.held == 0 {
		m.tendAt = q.clock.Now().Add(groupPatience)
	}
	e.member.set(true, true)
	q.holding.Insert(m)
}

// holdLocked puts a pod behind the gate of its group, which has shrunk since the pod passed it.
func (q *Queue) holdLocked(logger klog.Logger, e *entry) {
	q.holdMemberLocked(e)
	e.missed = afterBackoff
	q.refuseLocked(e, podgroup.Gate, q.awaitedLocked(e.member.of), nil)
	q.moveLocked(logger, e, Gated, eventPodGroup)
}

// awaitedLocked returns what the gate of a group waits for, and notes it for the pods that it holds
// already. It does not name the number of pods that are ready, which changes with each of them.
func (q *Queue) awaitedLocked(m *members) string {
	message := fmt.Sprintf("there is no PodGroup %s", m.Key)
	switch needed, known := q.groups.Needed(m.Key); {
	case known && m.ready >= needed:
		message = cmp.Or(q.awaitedTreeLocked(m), message)
	case known:
		message = fmt.Sprintf("fewer than %d pods of the pod group %s are ready to be scheduled", needed, m.Key)
	case !q.groups.Listed(m.Key):
		message = fmt.Sprintf("PodGroup %s is not known yet: livesched has not listed the PodGroups", m.Key)
	}
	if message == m.awaited {
		return message
	}
	m.awaited = message
	for e := range m.entries {
		if e.place == Gated && e.member.held {
			e.refusal = message
			q.noteHoldLocked(e, Gated)
		}
	}
	return message
}

// refuseLocked gates a pod, as a PreEnqueue plugin would.
func (q *Queue) refuseLocked(e *entry, gate, message string, events []fwk.ClusterEvent) {
	info := e.info
	e.failures, e.failure, e.refusal = 0, "", message
	info.GatingPlugin, info.GatingPluginEvents = gate, events
	// Events that may help the pod are those that the gating plugin registered for, so it counts
	// among the plugins that refused the pod.
	if info.UnschedulablePlugins.Has(gate) {
		return
	}
	if !info.PendingPlugins.Has(gate) {
		q.metrics.refused(gate, e.profile.name, 1)
	}
	if info.UnschedulablePlugins == nil {
		info.UnschedulablePlugins = sets.New[string]()
	}
	info.UnschedulablePlugins.Insert(gate)
}

// openGateLocked queues the pods of a group that its gate holds, if enough are ready now, and those
// of the other groups of its tree.
func (q *Queue) openGateLocked(logger klog.Logger, m *members) {
	if m == nil {
		return
	}
	if tree, _ := q.groups.TreeOf(m.Key); tree != nil {
		q.openTreeLocked(logger, tree, m.schedulerName)
		return
	}
	if m.held == 0 {
		return
	}
	if _, enough := q.enoughLocked(m); enough {
		q.enqueueHeldLocked(logger, m)
	}
}

// enqueueHeldLocked queues the pods of a group that its gate holds.
func (q *Queue) enqueueHeldLocked(logger klog.Logger, m *members) {
	q.enqueueMembersLocked(logger, m, func(e *entry) bool { return e.member.held })
}

// retryLocked retries the pods of a group that plugins refused. Those in flight follow when they
// come back, unless they are bound: their attempt may have begun before what has changed.
func (q *Queue) retryLocked(logger klog.Logger, m *members) {
	for e := range m.entries {
		if e.place == InFlight {
			e.flight.groupChanged = true
		}
	}
	q.enqueueMembersLocked(logger, m, func(e *entry) bool { return e.place == Unschedulable })
}

// enqueueMembersLocked queues some of the pods of a group, in the order in which they arrived: for
// equal ones, this is the order of the queue.
func (q *Queue) enqueueMembersLocked(logger klog.Logger, m *members, which func(*entry) bool) {
	var chosen []*entry
	for e := range m.entries {
		if which(e) && !e.outdatedLocked() {
			chosen = append(chosen, e)
		}
	}
	slices.SortFunc(chosen, func(a, b *entry) int { return cmp.Compare(a.arrival, b.arrival) })
	for _, e := range chosen {
		q.enqueueOneLocked(logger, e, afterBackoff, eventPodGroup)
	}
}

// PendingGroups returns the numbers of groups with pods in the queue that are not in flight: those
// whose gate holds pods because too few are ready, and the others.
func (q *Queue) PendingGroups() (incomplete, complete int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.members {
		switch {
		case m.held == 0 && m.ready > 0:
			complete++
		case m.anyLocked(func(e *entry) bool { return e.place != InFlight }):
			incomplete++
		}
	}
	return incomplete, complete
}

// anyLocked reports whether some pod of the group is as a function says.
func (m *members) anyLocked(is func(*entry) bool) bool {
	for e := range m.entries {
		if is(e) {
			return true
		}
	}
	return false
}

// RetryGroup retries the pods of a group that plugins refused: they may be placed in other ways
// now.
func (q *Queue) RetryGroup(logger klog.Logger, key podgroup.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retryGroupLocked(logger, key)
}

// RetryGroupAt is RetryGroup at a later time, to the second. It replaces an earlier call for the
// same group.
func (q *Queue) RetryGroupAt(key podgroup.Key, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.groupRetries[key] = at
}

// PauseGroup lets the pods of a group that come back after errors wait for as long as they have
// held room for nothing, up to maxPause: others may use the room in the meantime. It must be called
// before they come back.
func (q *Queue) PauseGroup(key podgroup.Key, held time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.groupPauses[key] = q.clock.Now().Add(min(held, maxPause))
}

// maxPause is the longest pause of PauseGroup.
const maxPause = 10 * time.Minute

// retryDueGroups retries the groups whose time of RetryGroupAt has come. Those that are being tried
// follow when their pods have come back.
func (q *Queue) retryDueGroups(logger klog.Logger) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	maps.DeleteFunc(q.groupPauses, func(_ podgroup.Key, until time.Time) bool { return until.Before(now) })
	for key, at := range q.groupRetries {
		if !at.After(now) && !q.groupInFlightLocked(key) {
			delete(q.groupRetries, key)
			q.retryGroupLocked(logger, key)
		}
	}
}

// groupInFlightLocked reports whether a pod of a group is in flight.
func (q *Queue) groupInFlightLocked(key podgroup.Key) bool {
	for m := range q.membersOfUnitLocked(key) {
		if m.anyLocked(func(e *entry) bool { return e.place == InFlight }) {
			return true
		}
	}
	return false
}

func (q *Queue) retryGroupLocked(logger klog.Logger, key podgroup.Key) {
	for m := range q.membersOfUnitLocked(key) {
		q.retryLocked(logger, m)
	}
}

// membersOfLocked returns the pods of a group, profile by profile.
func (q *Queue) membersOfLocked(key podgroup.Key) iter.Seq[*members] {
	return func(yield func(*members) bool) {
		for name := range q.rules.profiles {
			if m := q.members[memberKey{Key: key, schedulerName: name}]; m != nil && !yield(m) {
				return
			}
		}
	}
}

// GroupChanged reports that the object of a pod group has changed or is gone, or that more or fewer
// of its pods have a node. If fewer are needed now, the pods that the gate of the group holds are
// queued if enough are ready, and those that plugins refused are retried.
func (q *Queue) GroupChanged(logger klog.Logger, key podgroup.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	for m := range q.membersOfLocked(key) {
		q.groupChangedLocked(logger, m)
	}
	// The other groups of its tree may be ready now, also if this one has no pod here any more.
	if tree, _ := q.groups.TreeOf(key); tree != nil {
		for name := range q.rules.profiles {
			q.openTreeLocked(logger, tree, name)
		}
	}
}

func (q *Queue) groupChangedLocked(logger klog.Logger, m *members) {
	q.reassignGroupLocked(logger, m)
	needed, known := q.groups.Needed(m.Key)
	m.anyLocked(func(e *entry) bool {
		q.classifyLocked(e)
		return true // one stands for all
	})
	q.rankGroupLocked(m)
	q.openGateLocked(logger, m)
	if m.held > 0 {
		q.awaitedLocked(m)
	}
	if !known {
		m.tendAt = q.clock.Now()
		q.holding.Insert(m)
	}
	if known && needed < m.needed {
		m.needed = needed
		q.retryLocked(logger, m)
	}
}

// renewMembersLocked renews the outdated pods of the group of a pod. It reports whether there were
// any. All of them are renewed before one is taken: the gate of the group counts those that are
// ready, and would hold the last ones.
func (q *Queue) renewMembersLocked(logger klog.Logger, e *entry) (renewed bool) {
	m := e.member.of
	if m == nil {
		return false
	}
	tree, _ := q.groups.TreeOf(m.Key)
	if tree == nil {
		return q.renewAllLocked(logger, m)
	}
	for _, m := range q.inTreeLocked(tree, m.schedulerName) {
		renewed = q.renewAllLocked(logger, m) || renewed
	}
	return renewed
}

func (q *Queue) renewAllLocked(logger klog.Logger, m *members) (renewed bool) {
	for e := range m.entries {
		if e.member.ready && e.outdatedLocked() {
			q.renewLocked(logger, e)
			renewed = true
		}
	}
	return renewed
}

// popGroupLocked takes the pods of a unit that are ready, after first, which has been taken. It
// returns nil for a pod that is scheduled by itself.
func (q *Queue) popGroupLocked(first *entry, u unit) *PoppedGroup {
	m := first.member.of
	switch {
	case u.needed == 0:
		return nil
	case u.tree != nil:
		return q.popTreeLocked(first, u)
	case q.groups.OneByOne(m.Key):
		return nil
	}
	m.needed = u.needed
	g := &PoppedGroup{Key: m.Key, Needed: u.needed}
	g.Others = q.takeOthersLocked(q.othersLocked(make([]*entry, 0, m.ready), m, first))
	return g
}

// othersLocked appends the pods of a group that are popped with another one.
func (q *Queue) othersLocked(others []*entry, m *members, first *entry) []*entry {
	for e := range m.entries {
		if e.member.ready && !e.member.held && e.profile == first.profile {
			others = append(others, e)
		}
	}
	return others
}

// takeOthersLocked takes pods in the order of the queue sort.
func (q *Queue) takeOthersLocked(others []*entry) (infos []*schedframework.QueuedPodInfo) {
	slices.SortFunc(others, q.compareMembersLocked)
	for _, e := range others {
		infos = append(infos, q.takeLocked(e))
	}
	return infos
}

// compareMembersLocked orders the pods of a group by the queue sort, and equal ones by name.
func (q *Queue) compareMembersLocked(a, b *entry) int {
	switch {
	case q.lessLocked(a, b):
		return -1
	case q.lessLocked(b, a):
		return 1
	}
	return cmp.Compare(a.pod.Name, b.pod.Name)
}
