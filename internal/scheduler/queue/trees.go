// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// The pods of a tree of groups leave the gates of their groups when enough groups are complete, and
// Pop takes all that are ready with the first of them.

// lacksLocked returns a function that returns how many pods a group of pods lacks when those that
// are ready get a node.
func (q *Queue) lacksLocked(schedulerName string) func(*podgroup.Tree) int {
	return func(leaf *podgroup.Tree) int {
		lacks := q.groups.Missing(leaf.Key)
		if m := q.members[memberKey{leaf.Key, schedulerName}]; m != nil {
			lacks -= m.ready
		}
		return lacks
	}
}

// inTreeLocked returns the groups of pods of a tree that have pods in the queue.
func (q *Queue) inTreeLocked(tree *podgroup.Tree, schedulerName string) (all []*members) {
	for leaf := range tree.Leaves() {
		if m := q.members[memberKey{leaf.Key, schedulerName}]; m != nil {
			all = append(all, m)
		}
	}
	return all
}

// openTreeLocked queues the pods that the gates of the groups of a tree hold, if these may be tried
// now.
func (q *Queue) openTreeLocked(logger klog.Logger, tree *podgroup.Tree, schedulerName string) {
	var ready sets.Set[podgroup.Key]
	for _, m := range q.inTreeLocked(tree, schedulerName) {
		if m.held == 0 {
			continue
		}
		if ready == nil {
			ready, _ = tree.Ready(q.lacksLocked(schedulerName))
		}
		if ready.Has(m.Key) {
			q.enqueueHeldLocked(logger, m)
		}
	}
}

// awaitedTreeLocked returns what a group that is complete waits for in its tree, "" if nothing.
func (q *Queue) awaitedTreeLocked(m *members) string {
	tree, problem := q.groups.TreeOf(m.Key)
	switch {
	case tree != nil:
	case problem != "" && !q.groups.Listed(podgroup.CompositeKey(m.Namespace, "")):
		return "livesched has not listed the CompositePodGroups"
	default:
		return problem
	}
	if _, incomplete := tree.Ready(q.lacksLocked(m.schedulerName)); incomplete != nil {
		return fmt.Sprintf("fewer than %d groups of the composite pod group %s are ready to be scheduled",
			incomplete.MinGroups, incomplete.Key)
	}
	return ""
}

// popTreeLocked takes the pods of a tree that are ready, after first, which has been taken. Pods of
// a group that may not be tried any more, because the tree has changed since they were queued, stay
// until one of them comes first.
func (q *Queue) popTreeLocked(first *entry, u unit) *PoppedGroup {
	g := &PoppedGroup{Key: u.tree.Key, Tree: u.tree, Needed: 1}
	var others []*entry
	for _, m := range q.inTreeLocked(u.tree, first.pod.Spec.SchedulerName) {
		if u.ready.Has(m.Key) {
			if needed, known := q.groups.Needed(m.Key); known {
				m.needed = needed
			}
			others = q.othersLocked(others, m, first)
		}
	}
	g.Others = q.takeOthersLocked(others)
	return g
}

// excuseAbsentLocked lets the tree of a group do without groups that have no pods any more. It
// reports whether anything has changed.
func (q *Queue) excuseAbsentLocked(m *members) bool {
	tree, _ := q.groups.TreeOf(m.Key)
	return tree != nil && q.groups.ExcuseAbsent(tree, func(leaf *podgroup.Tree) int {
		if m := q.members[memberKey{leaf.Key, m.schedulerName}]; m != nil {
			return m.ready
		}
		return 0
	})
}

// membersOfUnitLocked returns the pods of a group or of a tree, profile by profile.
func (q *Queue) membersOfUnitLocked(key podgroup.Key) iter.Seq[*members] {
	tree, _ := q.groups.TreeOf(key)
	if tree == nil {
		return q.membersOfLocked(key)
	}
	return func(yield func(*members) bool) {
		for leaf := range tree.Leaves() {
			for m := range q.membersOfLocked(leaf.Key) {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// TreeChanged reports that a composite group has changed or is gone. affected are the groups of
// pods that may be placed in other ways than before.
func (q *Queue) TreeChanged(logger klog.Logger, affected []podgroup.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	for _, key := range affected {
		for m := range q.membersOfLocked(key) {
			q.groupChangedLocked(logger, m)
			q.retryLocked(logger, m)
		}
	}
}
