// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"slices"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// This file keeps the nodes of groups in buckets, and finds the best nodes.

// add adds a slot to a group.
func (g *groups) add(slot cache.Slot, number int32, sum int64) {
	in := g.list[number].bucket(sum)
	if in < 0 {
		in = g.newBucket(number, sum)
	}
	b := &g.buckets[in]
	room := cap(b.slots)
	g.in[slot], g.at[slot] = in, int32(len(b.slots))
	b.slots = append(b.slots, slot)
	g.held += cap(b.slots) - room
	g.list[number].size++
}

// remove removes a slot from its bucket. It also removes the bucket and the group if it was their
// last slot.
func (g *groups) remove(slot cache.Slot) {
	in := g.in[slot]
	b := &g.buckets[in]
	last := b.slots[len(b.slots)-1]
	b.slots[g.at[slot]] = last
	g.at[last] = g.at[slot]
	b.slots = b.slots[:len(b.slots)-1]
	g.in[slot] = -1
	of := &g.list[b.group]
	of.size--
	if len(b.slots) > 0 {
		return
	}
	if i, ok := of.find(b.sum); ok {
		of.buckets = slices.Delete(of.buckets, i, i+1)
	}
	if cap(b.slots) > maxSpare {
		g.held -= cap(b.slots)
		b.slots = nil
	}
	g.freeBuckets = append(g.freeBuckets, in)
	if of.size == 0 {
		delete(g.numbers, of.key)
		g.freeGroups = append(g.freeGroups, b.group)
	}
}

// maxSpare bounds the capacity that an empty bucket keeps.
const maxSpare = 64

// newGroup adds a group with the key that was last written.
func (g *groups) newGroup() int32 {
	key := string(g.key)
	var number int32
	if last := len(g.freeGroups) - 1; last >= 0 {
		number, g.freeGroups = g.freeGroups[last], g.freeGroups[:last]
		g.list[number].key = key
	} else {
		number = int32(len(g.list))
		g.list = append(g.list, group{key: key})
	}
	g.numbers[key] = number
	return number
}

// newBucket adds a bucket to a group.
func (g *groups) newBucket(of int32, sum int64) int32 {
	var number int32
	if last := len(g.freeBuckets) - 1; last >= 0 {
		number, g.freeBuckets = g.freeBuckets[last], g.freeBuckets[:last]
	} else {
		number = int32(len(g.buckets))
		g.buckets = append(g.buckets, bucket{})
	}
	b := &g.buckets[number]
	b.group, b.sum = of, sum
	own := &g.list[of]
	i, _ := own.find(sum)
	own.buckets = slices.Insert(own.buckets, i, bucketOf{sum, number})
	return number
}

// find returns the position of a sum's bucket in the group, or the position at which to insert it.
func (g *group) find(sum int64) (int, bool) {
	return slices.BinarySearchFunc(g.buckets, sum, func(b bucketOf, sum int64) int { return cmp.Compare(b.sum, sum) })
}

// bucket returns the number of the bucket of a sum, or -1 if there is none.
func (g *group) bucket(sum int64) int32 {
	if i, ok := g.find(sum); ok {
		return g.buckets[i].number
	}
	return -1
}

// best returns the nodes of a group with the highest sum. They are valid until the next change.
func (g *groups) best(number int32) []cache.Slot {
	own := g.list[number].buckets
	return g.buckets[own[len(own)-1].number].slots
}

// representatives appends one of the best nodes of each group.
func (g *groups) representatives(to []cache.Slot) []cache.Slot {
	for number := range g.list {
		if g.list[number].size > 0 {
			to = append(to, g.best(int32(number))[0])
		}
	}
	return to
}

// of returns the group of a slot.
func (g *groups) of(slot cache.Slot) int32 { return g.buckets[g.in[slot]].group }

// size estimates the memory of the groups. A sum has a bucket in few groups.
func (g *groups) size() int {
	return 512 + 4*(cap(g.in)+cap(g.at)+g.held) + 64*cap(g.buckets) + 128*cap(g.list)
}
