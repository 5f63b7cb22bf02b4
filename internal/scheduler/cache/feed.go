// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"

	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// maxJournal bounds the journal, and with it the removed pods that it keeps in memory while no
// snapshot is refreshed, as on a replica that does not lead. With more entries, rebuilding the
// nodes concerned costs about as much as replaying.
const maxJournal = 4096

// minTrim is the length at which feed.stale is first trimmed.
const minTrim = 1024

type deltaKind uint8

const (
	podPlaced deltaKind = iota
	podTaken
	podReplaced
	nodeChanged
	nodeRefreshed
)

// delta is one change of a node.
type delta struct {
	kind  deltaKind
	class ClassID
	node  *node
	// info is the pod that was added or removed, or that replaced old.
	info, old *schedframework.PodInfo
}

// feed holds the changes that the fed snapshot does not show yet.
//
// A node is either tracked or stale. All changes of a tracked node since the last refresh are in
// the journal. A stale node was added or removed, or had too many changes; the refresh adds,
// removes or rebuilds it as a whole. Changes of a stale node are not recorded, and those recorded
// before it became stale are ignored.
//
// It has no lock; Cache.mu guards it.
type feed struct {
	snapshot *Snapshot
	journal  []delta
	limit    int // of the journal
	stale    []*node
	trimAt   int // the length at which stale is trimmed
}

// record adds a change of a node that the snapshot shows. Nodes that it does not show are stale.
func (f *feed) record(d delta) {
	if d.node.slot == noSlot || d.node.stale {
		return
	}
	if len(f.journal) < f.limit {
		f.journal = append(f.journal, d)
		return
	}
	for i := range f.journal {
		f.markStale(f.journal[i].node)
	}
	f.dropJournal()
	f.markStale(d.node)
}

// markStale makes the next refresh treat the node as a whole.
func (f *feed) markStale(n *node) {
	if f.snapshot == nil || n.stale {
		return
	}
	n.stale = true
	f.stale = append(f.stale, n)
	if len(f.stale) >= max(f.trimAt, minTrim) {
		f.trim()
	}
}

// trim drops nodes that were added and removed between two refreshes, so that they do not
// accumulate if the snapshot is not refreshed.
func (f *feed) trim() {
	kept := f.stale[:0]
	for _, n := range f.stale {
		if n.slot == noSlot && n.obj == nil {
			n.stale = false
			continue
		}
		kept = append(kept, n)
	}
	clear(f.stale[len(kept):])
	f.stale = kept
	f.trimAt = 2 * len(kept)
}

// pending reports whether there are changes that the snapshot does not show.
func (f *feed) pending() bool { return len(f.journal)+len(f.stale) > 0 }

// flush applies all changes to the snapshot.
func (f *feed) flush(logger klog.Logger) error {
	var errs []error
	for i := range f.journal {
		d := &f.journal[i]
		if d.node.stale {
			continue
		}
		if err := f.snapshot.apply(logger, d); err != nil {
			errs = append(errs,
				fmt.Errorf("snapshot of node %q was not consistent and has been rebuilt: %w", d.node.name, err))
			f.markStale(d.node)
		}
	}
	for _, n := range f.stale {
		f.updateNode(n)
	}
	f.clear()
	return errors.Join(errs...)
}

// updateNode makes the snapshot show the present state of a stale node.
func (f *feed) updateNode(n *node) {
	if n.slot != noSlot && (n.obj == nil || n.recreated) {
		f.snapshot.removeNode(n.slot)
		n.slot = noSlot
	}
	switch {
	case n.obj == nil:
	case n.slot == noSlot:
		n.slot = f.snapshot.addNode(n)
	default:
		f.snapshot.rebuildNode(n)
	}
}

// clear drops all changes.
func (f *feed) clear() {
	for _, n := range f.stale {
		n.stale, n.recreated = false, false
	}
	clear(f.stale)
	f.stale = f.stale[:0]
	f.trimAt = 0
	f.dropJournal()
}

// dropJournal empties the journal and releases its pods.
func (f *feed) dropJournal() {
	clear(f.journal)
	f.journal = f.journal[:0]
}
