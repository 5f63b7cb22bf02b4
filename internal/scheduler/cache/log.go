// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

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

// Log lists the changes of the nodes of a snapshot, from refresh to refresh. A reader keeps its
// position and reads the entries after it. Entries describe past changes: a reader must read the
// present state of an entry's slot.
//
// Changes that no plugin's result depends on have no entry: the confirmation of an assumed pod on
// its node, an update of a pod's status or annotations, an update of a node's conditions or
// attached volumes.
//
// The log has no lock. Only UpdateSnapshot and an Overlay write it; between refreshes any number of
// goroutines may read it.
type Log struct {
	// first is the position of entries[0]. Positions start at 1, so that 0 is a reader that has
	// never read.
	first   uint64
	entries []Change
}

// End returns the position after the last entry.
func (l *Log) End() uint64 { return l.first + uint64(len(l.entries)) }

// Since returns the entries from pos on, oldest first, and true; the reader's next position is End.
// False means that the log does not reach back to pos and the reader must read every slot again, as
// at its start (position 0). The log keeps as many entries as there are slots, and at least 8192,
// except across a gap (see [Cache.UpdateSnapshot]).
//
// The entries are valid until the next refresh.
func (l *Log) Since(pos uint64) ([]Change, bool) {
	if pos < l.first || pos > l.End() {
		return nil, false
	}
	return l.entries[pos-l.first:], true
}

// add appends an entry. When the log has twice the entries that it must keep, add drops the older
// half, so that the entries stay contiguous.
func (l *Log) add(change Change, slots int) {
	keep := max(minLogEntries, slots)
	if len(l.entries) >= 2*keep {
		dropped := len(l.entries) - keep
		copy(l.entries, l.entries[dropped:])
		l.entries = l.entries[:keep]
		l.first += uint64(dropped)
	}
	l.entries = append(l.entries, change)
}

// cut makes a gap: all readers have to start again.
func (l *Log) cut() {
	l.first = l.End() + 1
	l.entries = l.entries[:0]
}
