// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import "github.com/livesched/livesched/internal/scheduler/changelog"

// minLogEntries is the minimum number of entries that the change log keeps.
const minLogEntries = 8192

// ChangeKind is the kind of a change of a slot.
type ChangeKind uint8

const (
	// PodAdded means that a pod was assumed on the node or assigned to it.
	PodAdded ChangeKind = iota + 1
	// PodRemoved means that a pod was forgotten, deleted, or reported on another node. A pod with a
	// change that matters to others (labels, resources, termination) is removed and added.
	PodRemoved
	// NodeObject means that labels, taints, allocatable resources, images or anything else of the
	// node object changed, or that the node had too many changes to log each. Everything computed
	// from the node is outdated.
	NodeObject
	// NodeAdded means that a new node has the slot.
	NodeAdded
	// NodeRemoved means that the node in the slot was removed. If another node has taken the slot
	// since, a NodeAdded follows.
	NodeRemoved
)

// Change is an entry of the change log.
type Change struct {
	Slot Slot
	Kind ChangeKind
	// Pod is the class of the pod that was added or removed, 0 if it is unknown.
	Pod ClassID
}

// Log lists the changes of the nodes of a snapshot, from refresh to refresh, as changelog.Log does.
//
// Changes that no plugin's result depends on have no entry: the confirmation of an assumed pod on
// its node, an update of a pod's status or annotations, an update of a node's conditions or
// attached volumes.
//
// The log has no lock. Only UpdateSnapshot and an Overlay write it; between refreshes any number of
// goroutines may read it.
type Log struct{ changes changelog.Log[Change] }

// End returns the position after the last entry.
func (l *Log) End() uint64 { return l.changes.End() }

// Since returns the entries from pos on, oldest first, and true; the reader's next position is End.
// False means that the log does not reach back to pos and the reader must read every slot again, as
// at its start (position 0). The log keeps as many entries as there are slots, and at least 8192,
// except across a gap (see [Cache.UpdateSnapshot]).
//
// The entries are valid until the next refresh.
func (l *Log) Since(pos uint64) ([]Change, bool) { return l.changes.Since(pos) }

func (l *Log) add(change Change, slots int) { l.changes.Add(change, max(minLogEntries, slots)) }

// cut makes a gap: all readers have to start again.
func (l *Log) cut() { l.changes.Cut() }
