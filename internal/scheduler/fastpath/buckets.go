// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import "github.com/livesched/livesched/internal/scheduler/cache"

// maxBuckets bounds the weighted sums for which there are buckets. Those of the default weights go
// up to 200.
const maxBuckets = 1 << 13

// maxParts bounds the parts of buckets.
const maxParts = 9

// buckets sorts slots by a number, so that it returns those with the highest number and moves a
// slot in constant time. It is off if the numbers can be too high.
//
// The slots of different kinds (see imageColumn) are in different parts, each of which is sorted on
// its own. The last part holds the slots of all other kinds.
type buckets struct {
	// width is the number of buckets of a part.
	width int64
	// slots holds the slots by part and number, in no order.
	slots [][]cache.Slot
	// at is the position of each slot in its bucket. in is its part; nil: the first.
	at []int32
	in []uint8
	// tops are, by part, the highest number that has a slot, or any number if there are no slots.
	tops []int64
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
	b := buckets{width: highest + 1}
	b.split(1)
	return b
}

// highest returns the highest number for which there is a bucket, or -1 if the buckets are off.
func (b *buckets) highest() int64 { return b.width - 1 }

// parts returns the number of parts.
func (b *buckets) parts() int { return len(b.tops) }

// split makes this number of parts. Those that are new are empty.
func (b *buckets) split(parts int) {
	b.slots = fitted(b.slots, parts*int(b.width), nil)
	b.tops = fitted(b.tops, parts, 0)
}

// partFor returns the part for slots of a kind.
func partFor(kind int32) int { return int(min(kind, maxParts-1)) }

// fill replaces the content by the slots whose verdict is fits, by their kinds (nil: all of them
// are of kind 0) and numbers. It returns how many these are, even if the buckets are off.
func (b *buckets) fill(verdict []uint16, kinds []int32, numbers []int64) int {
	if !b.on() {
		fit := 0
		for _, v := range verdict {
			if v == fits {
				fit++
			}
		}
		return fit
	}
	b.divide(verdict, kinds)
	fit := b.count(verdict, numbers)
	b.layOut(fit)
	for slot, v := range verdict {
		if v == fits {
			i := b.bucket(cache.Slot(slot), numbers[slot])
			b.at[slot] = int32(len(b.slots[i]))
			b.slots[i] = append(b.slots[i], cache.Slot(slot))
		}
	}
	return fit
}

// divide sets the parts of the slots that are filled in.
func (b *buckets) divide(verdict []uint16, kinds []int32) {
	if kinds == nil {
		b.in = nil
		b.split(1)
		return
	}
	b.in = fitted(b.in, len(b.at), 0)
	last := 0
	for slot, v := range verdict {
		if v == fits {
			part := partFor(kinds[slot])
			b.in[slot] = uint8(part)
			last = max(last, part)
		}
	}
	b.split(last + 1)
}

// count counts the slots of each bucket, and returns how many there are in all.
func (b *buckets) count(verdict []uint16, numbers []int64) int {
	b.counts = resized(b.counts, len(b.slots))
	clear(b.counts)
	fit := 0
	for slot, v := range verdict {
		if v == fits {
			b.counts[b.bucket(cache.Slot(slot), numbers[slot])]++
			fit++
		}
	}
	return fit
}

// layOut makes all buckets empty, with room for what was counted.
func (b *buckets) layOut(fit int) {
	b.backing = resized(b.backing, fit)
	clear(b.tops)
	end := 0
	for i, count := range b.counts {
		start := end
		end += int(count)
		// Leave no capacity to grow: the following elements belong to the next bucket.
		b.slots[i] = b.backing[start:start:end]
		if count > 0 {
			b.tops[int64(i)/b.width] = int64(i) % b.width
		}
	}
}

func (b *buckets) on() bool { return b.width > 0 }

func (b *buckets) grow(slots int) {
	if b.on() && len(b.at) < slots {
		b.at = fitted(b.at, slots, 0)
		if b.in != nil {
			b.in = fitted(b.in, slots, 0)
		}
	}
}

// bucket returns the bucket of a slot in its part.
func (b *buckets) bucket(slot cache.Slot, number int64) int64 {
	if b.in == nil {
		return number
	}
	return int64(b.in[slot])*b.width + number
}

// add adds a slot.
func (b *buckets) add(slot cache.Slot, kind int32, number int64) {
	if !b.on() {
		return
	}
	part := partFor(kind)
	if part >= b.parts() {
		b.split(part + 1)
	}
	if part > 0 && b.in == nil {
		b.in = make([]uint8, len(b.at))
	}
	if b.in != nil {
		b.in[slot] = uint8(part)
	}
	i := b.bucket(slot, number)
	b.at[slot] = int32(len(b.slots[i]))
	b.slots[i] = append(b.slots[i], slot)
	b.tops[part] = max(b.tops[part], number)
}

// remove removes a slot that was added with the number.
func (b *buckets) remove(slot cache.Slot, number int64) {
	if !b.on() {
		return
	}
	i := b.bucket(slot, number)
	bucket := b.slots[i]
	last := bucket[len(bucket)-1]
	bucket[b.at[slot]] = last
	b.at[last] = b.at[slot]
	b.slots[i] = bucket[:len(bucket)-1]
	part := i / b.width
	for b.tops[part] > 0 && len(b.slots[part*b.width+b.tops[part]]) == 0 {
		b.tops[part]--
	}
}

// best returns the slots of a part with the highest number. They are valid until the next change.
func (b *buckets) best(part int) []cache.Slot { return b.slots[int64(part)*b.width+b.tops[part]] }

// pure reports whether the slots of each part are of one kind.
func (b *buckets) pure() bool { return b.parts() < maxParts || len(b.best(maxParts-1)) == 0 }

// all appends all slots to a slice.
func (b *buckets) all(to []cache.Slot) []cache.Slot {
	for part, top := range b.tops {
		for ; top >= 0; top-- {
			to = append(to, b.slots[int64(part)*b.width+top]...)
		}
	}
	return to
}

func (b *buckets) size() int {
	// Buckets that have outgrown their part of backing are not counted, but estimated as half of
	// them.
	return 4*cap(b.at) + cap(b.in) + 28*cap(b.slots) + 6*cap(b.backing)
}
