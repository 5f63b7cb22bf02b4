// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import "github.com/livesched/livesched/internal/scheduler/cache"

// maxBuckets bounds the weighted sums for which there are buckets. Those of the default weights go
// up to 200.
const maxBuckets = 1 << 13

// buckets sorts slots by a number, so that those with the highest are at hand and moving one costs
// nothing. It is off if the numbers go up too far.
type buckets struct {
	// slots by number, in no order.
	slots [][]cache.Slot
	// at is where each slot is in its bucket.
	at []int32
	// top is the highest number of which there is a slot, or any if there is none.
	top int64
	// all slots in one, as the last fill has laid them out, and scratch space for that.
	backing []cache.Slot
	counts  []int32
}

// newBuckets returns buckets for numbers from 0 to highest.
func newBuckets(highest int64) buckets {
	if highest < 0 || highest >= maxBuckets {
		return buckets{}
	}
	return buckets{slots: make([][]cache.Slot, highest+1), counts: make([]int32, highest+1)}
}

// highest is the number that the buckets go up to, -1 if they are off.
func (b *buckets) highest() int64 { return int64(len(b.slots)) - 1 }

// fill puts those slots into the buckets that the verdict fits, by their numbers, in the place of
// all that were there. It returns how many they are, also if the buckets are off.
func (b *buckets) fill(verdict []uint16, numbers []int64) int {
	fit := 0
	if !b.on() {
		for _, v := range verdict {
			if v == fits {
				fit++
			}
		}
		return fit
	}
	clear(b.counts)
	for slot, v := range verdict {
		if v == fits {
			b.counts[numbers[slot]]++
			fit++
		}
	}
	b.backing = resized(b.backing, fit)
	b.top = 0
	end := 0
	for number, count := range b.counts {
		start := end
		end += int(count)
		// No room to grow: what is behind belongs to the next number.
		b.slots[number] = b.backing[start:start:end]
		if count > 0 {
			b.top = int64(number)
		}
	}
	for slot, v := range verdict {
		if v == fits {
			number := numbers[slot]
			b.at[slot] = int32(len(b.slots[number]))
			b.slots[number] = append(b.slots[number], cache.Slot(slot))
		}
	}
	return fit
}

func (b *buckets) on() bool { return b.slots != nil }

func (b *buckets) grow(slots int) {
	if b.on() && len(b.at) < slots {
		b.at = fitted(b.at, slots, 0)
	}
}

func (b *buckets) add(slot cache.Slot, number int64) {
	if !b.on() {
		return
	}
	b.at[slot] = int32(len(b.slots[number]))
	b.slots[number] = append(b.slots[number], slot)
	b.top = max(b.top, number)
}

// remove takes out a slot that was added with the number.
func (b *buckets) remove(slot cache.Slot, number int64) {
	if !b.on() {
		return
	}
	bucket := b.slots[number]
	last := bucket[len(bucket)-1]
	bucket[b.at[slot]] = last
	b.at[last] = b.at[slot]
	b.slots[number] = bucket[:len(bucket)-1]
	for b.top > 0 && len(b.slots[b.top]) == 0 {
		b.top--
	}
}

// best returns the slots with the highest number. They are valid until the next change.
func (b *buckets) best() []cache.Slot { return b.slots[b.top] }

// all appends all slots.
func (b *buckets) all(to []cache.Slot) []cache.Slot {
	for number := b.top; number >= 0; number-- {
		to = append(to, b.slots[number]...)
	}
	return to
}

func (b *buckets) size() int {
	// Of the buckets it is not counted which have outgrown their part of backing, but taken to be
	// half of them.
	return 4*cap(b.at) + 28*len(b.slots) + 6*cap(b.backing)
}
