// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import "fmt"

// checkLocked checks that each pod is in the structure of its place, and in no other.
func (q *Queue) checkLocked() error {
	found := 0
	isAt := func(e *entry, index int) bool {
		found++
		return e.index == index && q.pods[e.pod.UID] == e && e.info.Pod == e.pod &&
			(e.outdatedLocked() || e.profile == q.rules.profiles[e.pod.Spec.SchedulerName] ||
				e.profile == q.rules.canaries[e.pod.Spec.SchedulerName])
	}
	for place, h := range map[Place]*podHeap{Active: &q.active, Backoff: &q.backoff, ErrorBackoff: &q.errorBackoff} {
		for i, e := range h.entries {
			if !isAt(e, i) || e.place != place || i > 0 && h.Less(i, (i-1)/2) {
				return fmt.Errorf("%s is misplaced in %v: %+v", e.pod.UID, place, e)
			}
		}
	}
	for i, e := range q.unschedulable.entries {
		if !isAt(e, i) || !e.place.awaitsEvent() {
			return fmt.Errorf("%s is misplaced among those that wait: %+v", e.pod.UID, e)
		}
	}
	for e := range q.inFlight.all() {
		found++
		if e.place != InFlight || e.info != nil || q.pods[e.pod.UID] != e {
			return fmt.Errorf("%s is misplaced among those in flight: %+v", e.pod.UID, e)
		}
	}
	if found != len(q.pods) {
		return fmt.Errorf("%d pods are in places, %d are known", found, len(q.pods))
	}
	for _, m := range q.members {
		if err := m.check(); err != nil {
			return err
		}
	}
	return q.unschedulable.check()
}

// check checks that metrics count the group where its pods are.
func (m *members) check() error {
	var at [places]int
	for e := range m.entries {
		if e.place != InFlight {
			at[e.place]++
		}
	}
	if m.entity && (at != m.at || m.queue != m.foremost()) {
		return fmt.Errorf("group %s counts in %v with %v, its pods are in %v", m.Key, m.queue, m.at, at)
	}
	return nil
}

// check checks that each waiting pod is in the one hint group that it belongs to, and that none
// is empty.
func (w *waitingPods) check() error {
	grouped := 0
	for i, k := range w.ordered {
		known, pods := len(k.byKey), 0
		if k.unknown != nil {
			known++
		}
		for j, g := range k.groups {
			if g.index != j || g.kind != k || len(g.entries) == 0 || g != k.unknown && k.byKey[g.key] != g {
				return fmt.Errorf("hint group %q of kind %+v is misplaced", g.key, k.kindKey)
			}
			for n, e := range g.entries {
				key, ok := w.keyOf(e)
				if e.hintGroup != g || e.indexInHintGroup != n || kindOf(e) != k.kindKey || ok != (g != k.unknown) ||
					ok && string(key) != g.key {
					return fmt.Errorf("%s is in a wrong hint group", e.pod.UID)
				}
			}
			pods += len(g.entries)
		}
		if k.index != i || w.kinds[k.kindKey] != k || pods == 0 || pods != k.pods || known != len(k.groups) {
			return fmt.Errorf("kind %+v is misplaced or has %d pods in %d hint groups and knows %d", k.kindKey, pods,
				len(k.groups), known)
		}
		grouped += pods
	}
	if len(w.kinds) != len(w.ordered) || grouped != len(w.entries) {
		return fmt.Errorf("%d of %d pods are in hint groups of %d of %d kinds", grouped, len(w.entries), len(w.ordered),
			len(w.kinds))
	}
	return nil
}
