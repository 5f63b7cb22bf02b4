// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import "github.com/livesched/livesched/internal/scheduler/cache"

// refresher holds what rows, trackers and groups need in one decision to catch up with the
// snapshot.
type refresher struct {
	// plan runs the plugins: the Plans of other instances that share a setup may be closed.
	plan *Plan
	// snapshot, nodes and classes are the sources of changes.
	snapshot *cache.Snapshot
	nodes    *nodeTable
	classes  *classTable
	*scratch

	// recordMetrics is true if the durations of plugin calls are recorded in this decision.
	recordMetrics bool
	// examined is the number of nodes that this decision has evaluated one by one, for themselves
	// or for their group, in trackers, groups, images, filters and scores. It excludes the
	// computation for a new class, and the nodes that plugins were run on, which
	// plugin_evaluation_total counts.
	examined int
}

// scratch is memory that rows, trackers and groups reuse one after the other.
type scratch struct {
	// seen are the slots that the current update has handled.
	seen slotSet
	// nodeScores are the scores of one node by plugin. allScores are the scores of all nodes.
	nodeScores, allScores []int64
	// active is for class.groupsOf.
	active []*tracker
	// moved is for groups.readMoved.
	moved []cache.Slot
}
