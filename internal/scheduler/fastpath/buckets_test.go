// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

func TestBucketsMatchAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	const highest = 9
	slots := 60
	type place struct {
		part   int
		number int64
	}
	b := newBuckets(highest)
	b.grow(slots)
	twin := map[cache.Slot]place{}
	kinds := int32(1)
	for step := range 20_000 {
		slot := cache.Slot(r.IntN(slots))
		if step%300 == 0 {
			slots++
			b.grow(slots)
			kinds = 1 + r.Int32N(2*maxParts)
		}
		if step%500 == 0 { // all new, with other numbers
			verdict, numbers := make([]uint16, slots), make([]int64, slots)
			var kindOf []int32
			if r.IntN(2) == 0 {
				kindOf = make([]int32, slots)
			}
			clear(twin)
			for slot := range verdict {
				numbers[slot] = r.Int64N(highest + 1)
				if verdict[slot] = []uint16{fits, noNode, refused}[r.IntN(3)]; verdict[slot] == fits {
					at := place{0, numbers[slot]}
					if kindOf != nil {
						kindOf[slot] = r.Int32N(kinds)
						at.part = partFor(kindOf[slot])
					}
					twin[cache.Slot(slot)] = at
				}
			}
			if fit := b.fill(verdict, kindOf, numbers); fit != len(twin) {
				t.Fatalf("step %d: %d slots were filled in, want %d", step, fit, len(twin))
			}
		} else if at, ok := twin[slot]; ok {
			b.remove(slot, at.number)
			delete(twin, slot)
		} else {
			kind, number := r.Int32N(kinds), r.Int64N(highest+1)
			b.add(slot, kind, number)
			twin[slot] = place{partFor(kind), number}
		}
		all := b.all(nil)
		slices.Sort(all)
		if want := slices.Sorted(maps.Keys(twin)); !slices.Equal(all, want) {
			t.Fatalf("step %d: %v, want %v", step, all, want)
		}
		var best [maxParts][]cache.Slot
		var tops [maxParts]int64
		for _, slot := range all {
			switch at := twin[slot]; {
			case len(best[at.part]) == 0 || at.number > tops[at.part]:
				best[at.part], tops[at.part] = []cache.Slot{slot}, at.number
			case at.number == tops[at.part]:
				best[at.part] = append(best[at.part], slot)
			}
		}
		for part, want := range best {
			var got []cache.Slot
			if part < b.parts() {
				got = slices.Sorted(slices.Values(b.best(part)))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("step %d: the best of part %d are %v, want %v", step, part, got, want)
			}
		}
		if b.pure() != (len(best[maxParts-1]) == 0) {
			t.Fatalf("step %d: the last part has %d slots, pure %t", step, len(best[maxParts-1]), b.pure())
		}
	}
}

func TestBucketsAreDisabledForLargeNumbers(t *testing.T) {
	for _, highest := range []int64{-1, maxBuckets} {
		b := newBuckets(highest)
		if b.on() {
			t.Errorf("there are buckets up to %d", highest)
		}
		if fit := b.fill([]uint16{fits, refused, fits}, nil, []int64{7, 7, 7}); fit != 2 {
			t.Errorf("%d slots fit, want 2", fit)
		}
	}
}
