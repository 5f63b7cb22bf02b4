// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// groups sorts the nodes that the local filters accept into groups. All nodes of a group get equal
// answers from the trackers and from the plugins whose scores are normalized, and have the same of
// the pods' images. They differ only in the sum of the other scores, by which they are kept in
// buckets. So one node of each group is enough for filters and normalization, and the best nodes
// are in the highest bucket of each of the best groups.
//
// The groups are updated through the change log, for slots whose rows or trackers have changed,
// after rows and trackers have been updated. They belong to rows and to some of the trackers.
// Classes that have the same rows and trackers share them.
type groups struct {
	rows *localRows
	// trackers are the trackers that affect nodes.
	trackers []*tracker
	// users is the number of classes that use the groups. bytes is their size when it was last
	// accounted.
	users, bytes int

	// made is true if the groups are up to date at pos. If not, they are empty, and pos and epoch
	// date from the last decision that could have used them.
	made  bool
	pos   uint64
	epoch uint64
	// flips is the position in the flips of the rows' occupation. out are the exceptions of the
	// class that used the groups last: these slots are in no group.
	flips uint64
	out   exceptions
	// movedTo is the position in topology.Tracker.Moved, by tracker.
	movedTo []uint64
	// retry is the position in the log from which the number of groups may be small enough again.
	retry uint64

	// in and at are by slot: the number of the slot's bucket, or -1 if it has none, and its
	// position in the bucket.
	in, at []int32
	// buckets and list are by number. freeBuckets and freeGroups are the numbers of those that are
	// empty.
	buckets                 []bucket
	list                    []group
	freeBuckets, freeGroups []int32
	numbers                 map[string]int32 // numbers of groups by key
	key                     []byte
	// held is the number of slots for which the buckets have capacity.
	held int
}

// group holds the nodes of one key. A group without nodes has no buckets.
type group struct {
	key  string
	size int32
	// buckets are sorted by sum in ascending order. None of them is empty.
	buckets []bucketOf
}

// bucketOf is the sum and the number of a bucket.
type bucketOf struct {
	sum    int64
	number int32
}

// bucket holds the nodes of a group with one sum.
type bucket struct {
	group int32
	sum   int64
	slots []cache.Slot // in no order
}

// minGroups is the number of groups that is acceptable in any cluster.
const minGroups = 32

// tooMany reports whether a pass over all nodes is as good, because the groups have fewer than
// eight nodes each.
func (g *groups) tooMany(snapshot *cache.Snapshot) bool {
	return len(g.numbers) > max(minGroups, snapshot.NumNodes()/8)
}

// groupable reports whether the nodes can be grouped at all. They cannot if a plugin normalizes in
// a way that may depend on the number of nodes.
func (l *localRows) groupable() bool {
	for i := range l.normalized {
		if !l.skips[i] && l.setup.normalized[i].normalization == byPlugin {
			return false
		}
	}
	return true
}

// groupsBy returns the groups by these trackers. They may be new, without a class that uses them.
func (l *localRows) groupsBy(trackers []*tracker) *groups {
	for _, g := range l.groups {
		if slices.Equal(g.trackers, trackers) {
			return g
		}
	}
	g := &groups{rows: l, trackers: slices.Clone(trackers), movedTo: make([]uint64, len(trackers)),
		numbers: map[string]int32{}}
	l.groups = append(l.groups, g)
	return g
}

// sync brings the groups up to date with the snapshot, leaves out exceptions (nil: none), and
// reports whether the groups can be used. It makes them only at the second call with few changes in
// between, because making them costs as much as several passes over all nodes.
func (g *groups) sync(r *refresher, without *exceptions) bool {
	log := r.snapshot.Log()
	changes, ok := log.Since(g.pos)
	epoch := uint64(0)
	for _, x := range g.trackers {
		epoch += x.GroupsEpoch()
	}
	known := g.readMoved(r)
	calm := ok && known && epoch == g.epoch && len(changes)+len(r.moved) <= max(minGroups, r.snapshot.Slots()/8)
	g.pos, g.epoch = log.End(), epoch
	switch {
	case !calm:
		g.clear()
	case g.made:
		r.examined += len(changes)
		for _, change := range changes {
			if g.cares(r.classes, change) {
				g.put(change.Slot)
			} else {
				g.move(change.Slot)
			}
		}
		r.examined += len(r.moved)
		for _, slot := range r.moved {
			g.put(slot)
		}
	case g.pos >= g.retry:
		g.make(r)
	}
	// make may have stopped, so check before exceptions reduce the number of groups.
	if g.made && g.tooMany(r.snapshot) {
		g.clear()
		g.retry = g.pos + uint64(r.snapshot.Slots())
	}
	if g.made {
		g.leaveOut(r, without)
	}
	return g.made
}

// leaveOut makes exceptions the only slots that are in no group although they fit.
func (g *groups) leaveOut(r *refresher, without *exceptions) {
	if without == nil {
		without = &exceptions{}
	}
	if g.out.version == without.version {
		return
	}
	out := g.out.slots
	g.out = exceptions{slots: maps.Clone(without.slots), version: without.version}
	for slot := range out {
		if !without.has(slot) {
			g.put(slot)
			r.examined++
		}
	}
	for slot := range without.slots {
		g.put(slot)
	}
}

// readMoved collects the slots that may belong to another group although they have not changed:
// their keys have changed because of other nodes, or they have become occupied or free. It returns
// false if they are not known.
func (g *groups) readMoved(r *refresher) bool {
	flips, known := g.rows.flips.Since(g.flips)
	r.moved, g.flips = append(r.moved[:0], flips...), g.rows.flips.End()
	for i, x := range g.trackers {
		slots, end, ok := x.Moved(g.movedTo[i])
		r.moved, g.movedTo[i], known = append(r.moved, slots...), end, known && ok
	}
	return known
}

// make groups all nodes, unless that results in too many groups.
func (g *groups) make(r *refresher) {
	g.made = true
	r.examined += len(g.rows.verdict)
	for slot := range g.rows.verdict {
		g.put(cache.Slot(slot))
		if g.tooMany(r.snapshot) {
			return
		}
	}
}

// clear removes all groups.
func (g *groups) clear() {
	if !g.made {
		return
	}
	*g = groups{
		rows: g.rows, trackers: g.trackers, users: g.users, bytes: g.bytes,
		pos: g.pos, epoch: g.epoch, flips: g.flips, movedTo: g.movedTo, retry: g.retry, numbers: map[string]int32{},
	}
}

// cares reports whether a change can move a node to another group. Changes of pods that are
// relevant to no tracker cannot, because the images and the scores with a known normalization
// depend only on the node object.
func (g *groups) cares(classes *classTable, change cache.Change) bool {
	if change.Kind != cache.PodAdded && change.Kind != cache.PodRemoved {
		return true
	}
	for _, x := range g.trackers {
		if x.cares(classes, change) {
			return true
		}
	}
	return false
}

// put moves a slot to the group and bucket that its current row and the trackers determine.
func (g *groups) put(slot cache.Slot) {
	for len(g.in) < len(g.rows.verdict) {
		g.in, g.at = append(g.in, -1), append(g.at, 0)
	}
	in := g.in[slot]
	if g.rows.verdict[slot] != fits || g.out.has(slot) {
		if in >= 0 {
			g.remove(slot)
		}
		return
	}
	sum := g.rows.fixed[slot]
	g.writeKey(slot)
	if in >= 0 {
		if b := &g.buckets[in]; b.sum == sum && g.list[b.group].key == string(g.key) {
			return
		}
		g.remove(slot)
	}
	number, ok := g.numbers[string(g.key)]
	if !ok {
		number = g.newGroup()
	}
	g.add(slot, number, sum)
}

// move moves a slot whose key has not changed to the bucket of its sum.
func (g *groups) move(slot cache.Slot) {
	if int(slot) >= len(g.in) || g.in[slot] < 0 || g.rows.verdict[slot] != fits {
		g.put(slot)
		return
	}
	b := &g.buckets[g.in[slot]]
	sum := g.rows.fixed[slot]
	if b.sum == sum {
		return
	}
	number := b.group
	g.list[number].size++ // keep the group if the slot is its only one
	g.remove(slot)
	g.add(slot, number, sum)
	g.list[number].size--
}

// writeKey writes the key of a slot's group.
func (g *groups) writeKey(slot cache.Slot) {
	g.key = binary.AppendVarint(g.key[:0], int64(g.rows.kindOf(slot)))
	for i, column := range g.rows.normalized {
		switch {
		case g.rows.skips[i]:
		case column == nil:
			g.key = append(g.key, 0)
		default:
			g.key = binary.AppendVarint(g.key, column[slot])
		}
	}
	for _, x := range g.trackers {
		g.key = x.AppendGroup(g.key, slot)
	}
}
