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
	const slots, highest = 60, 9
	b := newBuckets(highest)
	b.grow(slots)
	twin := map[cache.Slot]int64{}
	for step := range 20_000 {
		slot := cache.Slot(r.IntN(slots))
		if step%500 == 0 { // all new, with other numbers
			verdict, numbers := make([]uint16, slots), make([]int64, slots)
			clear(twin)
			for slot := range verdict {
				numbers[slot] = r.Int64N(highest + 1)
				if verdict[slot] = []uint16{fits, noNode, refused}[r.IntN(3)]; verdict[slot] == fits {
					twin[cache.Slot(slot)] = numbers[slot]
				}
			}
			if fit := b.fill(verdict, numbers); fit != len(twin) {
				t.Fatalf("step %d: %d slots were filled in, want %d", step, fit, len(twin))
			}
		} else if number, ok := twin[slot]; ok {
			b.remove(slot, number)
			delete(twin, slot)
		} else {
			number := r.Int64N(highest + 1)
			b.add(slot, number)
			twin[slot] = number
		}
		all := b.all(nil)
		slices.Sort(all)
		if want := slices.Sorted(maps.Keys(twin)); !slices.Equal(all, want) {
			t.Fatalf("step %d: %v, want %v", step, all, want)
		}
		var best []cache.Slot
		for slot, number := range twin {
			if number == slices.Max(slices.Collect(maps.Values(twin))) {
				best = append(best, slot)
			}
		}
		got := slices.Clone(b.best())
		slices.Sort(got)
		slices.Sort(best)
		if !slices.Equal(got, best) {
			t.Fatalf("step %d: the best are %v, want %v", step, got, best)
		}
	}
}

func TestBucketsAreDisabledForLargeNumbers(t *testing.T) {
	for _, highest := range []int64{-1, maxBuckets} {
		b := newBuckets(highest)
		if b.on() {
			t.Errorf("there are buckets up to %d", highest)
		}
		if fit := b.fill([]uint16{fits, refused, fits}, []int64{7, 7, 7}); fit != 2 {
			t.Errorf("%d slots fit, want 2", fit)
		}
	}
}
