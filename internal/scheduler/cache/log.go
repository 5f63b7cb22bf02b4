// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

// minLogEntries is how far back the change log reaches at least.
const minLogEntries = 8192

// ChangeKind says what happened to a slot.
type ChangeKind uint8

const (
	// PodAdded means that a pod was assumed on the node, or turned up there.
	PodAdded ChangeKind = iota + 1
	// PodRemoved means that a pod was forgotten, deleted, or turned up elsewhere. A pod that
	// changed in a way that matters to others (labels, resources, being terminated) is removed and
	// added.
	PodRemoved
	// NodeObject means that labels, taints, allocatable resources, images or anything else of the
	// node object changed, or so much happened to the node that it is not told one by one. Nothing
	// that was known about the node need be right.
	NodeObject
	// NodeAdded means that the slot was given to a node.
	NodeAdded
	// NodeRemoved means that the node in the slot is gone. Another may have the slot by now: a
	// NodeAdded follows then.
	NodeRemoved
)

var changeKinds = [...]string{PodAdded: "PodAdded", PodRemoved: "PodRemoved", NodeObject: "NodeObject", NodeAdded: "NodeAdded", NodeRemoved: "NodeRemoved"}

// String returns the name of the constant.
func (k ChangeKind) String() string {
	if int(k) < len(changeKinds) && changeKinds[k] != "" {
		return changeKinds[k]
	}
	return "unknown"
}

// Change is an entry of the change log.
type Change struct {
	Slot Slot
	Kind ChangeKind
	// Pod is the class of the pod that was added or removed, 0 if it is not known.
	Pod ClassID
}

// Log is what has happened to the nodes of a snapshot, from refresh to refresh. A reader keeps the
// position up to which it has read, and is told what came after it. Entries are about the past:
// what they say of a slot is that it has to be looked at, and it has to be looked at as the
// snapshot shows it now.
//
// The following makes no entry, since nothing a verdict may rest on has changed: the confirmation
// of an assumed pod on its node, an update of a pod's status or annotations, an update of a node
// that touches conditions or attached volumes only.
//
// The log has no lock. It is written by UpdateSnapshot alone, and may be read by any number of
// readers in between.
type Log struct {
	// first is the position of entries[0]. Positions start at 1, so that a reader at 0 has never
	// read.
	first   uint64
	entries []Change
}

// End is the position after the last entry.
func (l *Log) End() uint64 { return l.first + uint64(len(l.entries)) }

// Since returns what was logged from pos on, oldest first, and true; the reader's next position is
// End. False means that the log does not reach back to pos and the reader must look at every slot
// anew, as it must when it starts (at position 0). The log reaches back over as many entries as
// there are slots, and over 8192 at least, except over a gap (see [Cache.UpdateSnapshot]).
//
// The entries are valid until the next refresh.
func (l *Log) Since(pos uint64) ([]Change, bool) {
	if pos < l.first || pos > l.End() {
		return nil, false
	}
	return l.entries[pos-l.first:], true
}

// add appends an entry. Of twice the entries that have to be there, the older half is dropped at
// once, so that what readers get is contiguous.
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

// cut makes a gap that no reader gets over.
func (l *Log) cut() {
	l.first = l.End() + 1
	l.entries = l.entries[:0]
}
