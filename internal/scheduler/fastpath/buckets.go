// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import "github.com/livesched/livesched/internal/scheduler/cache"

// maxBuckets bounds the weighted sums for which there are buckets. Those of the default weights go
// up to 200.
const maxBuckets = 1 << 13

// buckets sorts slots by a number, so that it returns those with the highest number and moves a
// slot in constant time. It is off if the numbers can be too high.
type buckets struct {
	// slots holds the slots by number, in no order.
	slots [][]cache.Slot
	// at is the position of each slot in its bucket.
	at []int32
	// top is the highest number that has a slot, or any number if there are no slots.
	top int64
	// backing holds all slots in one array, as the last fill has laid them out. The rest is scratch
	// space for fill.
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

// highest returns the highest number for which there is a bucket, or -1 if the buckets are off.
func (b *buckets) highest() int64 { return int64(len(b.slots)) - 1 }

// fill replaces the content by the slots whose verdict is fits, by their numbers. It returns how
// many these are, even if the buckets are off.
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
		// Leave no capacity to grow: the following elements belong to the next number.
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

// remove removes a slot that was added with the number.
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

// all appends all slots to a slice.
func (b *buckets) all(to []cache.Slot) []cache.Slot {
	for number := b.top; number >= 0; number-- {
		to = append(to, b.slots[number]...)
	}
	return to
}

func (b *buckets) size() int {
	// Buckets that have outgrown their part of backing are not counted, but estimated as half of
	// them.
	return 4*cap(b.at) + 28*len(b.slots) + 6*cap(b.backing)
}
