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
// snapshot is taken, as on a follower. Beyond it, building the nodes concerned anew costs about as
// much as replaying.
const maxJournal = 4096

// minTrim is the length at which feed.stale is first searched for nodes that need not be there.
const minTrim = 1024

type deltaKind uint8

const (
	podPlaced deltaKind = iota
	podTaken
	podReplaced
	nodeChanged
	nodeRefreshed
)

// delta is one thing that happened to a node.
type delta struct {
	kind  deltaKind
	class ClassID
	node  *node
	// info is the pod that was placed, taken, or put in the place of old.
	info, old *schedframework.PodInfo
}

// feed is what the fed snapshot has yet to be told.
//
// A node is either in good standing, in which case everything that has happened to it since the
// last refresh is in the journal, or it is stale: it was added, removed, or too much has happened,
// and the refresh looks at it as it is. Deltas of a stale node are not recorded, and those recorded
// before it became stale are void.
//
// It has no lock; Cache.mu guards it.
type feed struct {
	snapshot *Snapshot
	journal  []delta
	limit    int // of the journal
	stale    []*node
	trimAt   int // the length of stale at which it is trimmed
}

// record notes what happened to a node that the snapshot shows. The others are not known to it yet,
// and will be looked at as a whole.
func (f *feed) record(d delta) {
	if d.node.slot == noSlot || d.node.stale {
		return
	}
	if len(f.journal) < f.limit {
		f.journal = append(f.journal, d)
		return
	}
	for i := range f.journal {
		f.resync(f.journal[i].node)
	}
	f.dropJournal()
	f.resync(d.node)
}

// resync has the node looked at as a whole by the next refresh.
func (f *feed) resync(n *node) {
	if f.snapshot == nil || n.stale {
		return
	}
	n.stale = true
	f.stale = append(f.stale, n)
	if len(f.stale) >= max(f.trimAt, minTrim) {
		f.trim()
	}
}

// trim drops nodes that came and went without the snapshot noticing, so that a cache whose snapshot
// is not refreshed does not collect them.
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

// flush tells the snapshot everything.
func (f *feed) flush(logger klog.Logger) error {
	var errs []error
	for i := range f.journal {
		d := &f.journal[i]
		if d.node.stale {
			continue
		}
		if err := f.snapshot.apply(logger, d); err != nil {
			errs = append(errs, fmt.Errorf("snapshot of node %q was not consistent and has been rebuilt: %w", d.node.name, err))
			f.resync(d.node)
		}
	}
	for _, n := range f.stale {
		f.settle(n)
	}
	f.clear()
	return errors.Join(errs...)
}

// settle makes the snapshot show a stale node as it is.
func (f *feed) settle(n *node) {
	if n.slot != noSlot && (n.obj == nil || n.reborn) {
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

// clear forgets what is to be told.
func (f *feed) clear() {
	for _, n := range f.stale {
		n.stale, n.reborn = false, false
	}
	clear(f.stale)
	f.stale = f.stale[:0]
	f.trimAt = 0
	f.dropJournal()
}

// dropJournal empties the journal and lets go of the pods in it.
func (f *feed) dropJournal() {
	clear(f.journal)
	f.journal = f.journal[:0]
}
