// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// keeping is the group that keeps room. Groups take turns: in each, one group keeps room, unless a
// more important one takes over, and after each, no group does for as long. So groups starve
// neither each other nor other pods. It belongs to the loop's goroutine.
type keeping struct {
	// group keeps room until a time, or was the last one that did. priority is the one of its pods.
	group    podgroup.Key
	priority int32
	until    time.Time
	// asked has the groups that wait for a turn.
	asked map[podgroup.Key]askedForRoom
}

// askedForRoom is about a group that waits for a turn.
type askedForRoom struct {
	priority int32
	// at is when it asked last, and turn when it had a turn, zero if it has had none.
	at, turn time.Time
}

// reserve keeps room for a group that has waited for long, if its policy asks for that: it
// nominates the members for nodes that have room for them once other pods have ended. So pods of
// their priority and below, which may come one after the other for ever, leave the room that
// becomes free there to the group. At the end of a turn, and when it may get one, the group is
// tried again.
func (g *groupCycle) reserve(ctx context.Context) {
	after := g.Profile.Config.PodGroupReserveAfter
	if g.Tree != nil { // which nodes its groups may have depends on each other
		return
	}
	placed, missing := g.loop.Groups.Placed(g.Group.Key)
	if after == 0 || placed > 0 && missing == 0 { // it runs, and could do with more pods
		return
	}
	now := g.loop.Clock.Now()
	turn, next := g.takeTurn(now, after)
	if !next.IsZero() {
		g.loop.Queue.RetryGroupAt(g.Group.Key, next)
	}
	if !turn || g.othersKeepRoom() {
		return
	}
	g.takeNominations() // they must not keep room from each other
	nodes := g.Reserve(ctx)
	g.takeNominations() // those of members that had a node in between are back
	g.clearNominations()
	if nodes == nil {
		return
	}
	g.nominate(nodes)
	on := sets.New(nodes...).Delete("").Len()
	g.Why.Message += fmt.Sprintf("; room on %d nodes is kept for them until %s", on,
		g.loop.keeping.until.UTC().Format(time.RFC3339))
}

// takeTurn reports whether it is the turn of the group, and when the group must look again.
func (g *groupCycle) takeTurn(now time.Time, after time.Duration) (turn bool, next time.Time) {
	k := &g.loop.keeping
	if due := g.waitingSince().Add(after); due.After(now) {
		return false, due
	}
	key, priority := g.Group.Key, corev1helpers.PodPriority(g.members[0].pod.Pod)
	last := k.asked[key].turn
	if k.asked == nil {
		k.asked = map[podgroup.Key]askedForRoom{}
	}
	k.asked[key] = askedForRoom{priority, now, last}
	maps.DeleteFunc(k.asked, func(_ podgroup.Key, other askedForRoom) bool { return now.Sub(other.at) > 3*after })
	switch running, free := k.until.After(now), k.until.Add(after); {
	case running && k.group == key:
		return true, k.until
	case running && k.priority >= priority, !running && free.After(now) && !k.until.IsZero():
		return false, free
	case !running && now.Before(free.Add(after/4)) && k.waitsLonger(key, k.asked[key]):
		return false, free.Add(after / 4) // it may be gone
	}
	k.group, k.priority, k.until = key, priority, now.Add(after)
	k.asked[key] = askedForRoom{priority, now, now}
	return true, k.until
}

// waitsLonger reports whether another group, which is as important, waits, and has had its last
// turn longer ago.
func (k *keeping) waitsLonger(key podgroup.Key, than askedForRoom) bool {
	for other, asked := range k.asked {
		if other != key && asked.priority >= than.priority && asked.turn.Before(than.turn) {
			return true
		}
	}
	return false
}

// end ends the turn of a group that has been placed, if it has one, and its wait for another.
func (k *keeping) end(key podgroup.Key, now time.Time) {
	delete(k.asked, key)
	if k.group == key && k.until.After(now) {
		k.until = now
	}
}

// waitingSince returns when a member was tried for the first time. Another process may have done
// so: then the conditions of the pods have the time. It does not count before the latest pod was
// created.
func (g *groupCycle) waitingSince() time.Time {
	tried, created := g.members[0].start, time.Time{}
	refused := tried
	for _, m := range g.members {
		if at := m.pod.InitialAttemptTimestamp; at != nil {
			tried = earlier(tried, *at)
		}
		created = later(created, m.pod.Pod.CreationTimestamp.Time)
		_, c := podutil.GetPodCondition(&m.pod.Pod.Status, corev1.PodScheduled)
		if c != nil && c.Reason == corev1.PodReasonUnschedulable && !c.LastTransitionTime.IsZero() {
			refused = earlier(refused, c.LastTransitionTime.Time)
		}
	}
	return earlier(tried, later(refused, created))
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// othersKeepRoom reports whether pods of another group are nominated that are as important: each
// of two groups might keep what the other one needs.
func (g *groupCycle) othersKeepRoom() bool {
	priority := corev1helpers.PodPriority(g.members[0].pod.Pod)
	for _, nomination := range g.loop.Queue.Nominator().Dump() {
		key := podgroup.KeyOf(nomination.Pod)
		if key != (podgroup.Key{}) && key != g.Group.Key && corev1helpers.PodPriority(nomination.Pod) >= priority {
			return true
		}
	}
	return false
}
