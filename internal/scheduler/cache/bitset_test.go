// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBitset(t *testing.T) {
	t.Run("it agrees with a map over random operations", func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		var set Bitset
		twin := map[Slot]bool{}
		for range 5000 {
			slot, in := Slot(random.IntN(300)), random.IntN(2) == 0
			if changed := set.set(slot, in); changed != (twin[slot] != in) {
				t.Fatalf("setting %d to %v: changed is %v", slot, in, changed)
			}
			if in {
				twin[slot] = true
			} else {
				delete(twin, slot)
			}
			if set.Len() != len(twin) || set.Has(slot) != in {
				t.Fatalf("after setting %d to %v: Len is %d of %d, Has is %v", slot, in, set.Len(), len(twin),
					set.Has(slot))
			}
		}
		if got, want := slices.Collect(set.All()), slices.Sorted(maps.Keys(twin)); !slices.Equal(got, want) {
			t.Errorf("All: got %v, want %v", got, want)
		}
	})

	t.Run("an iteration can stop early", func(t *testing.T) {
		var set Bitset
		set.set(3, true)
		set.set(200, true)
		for slot := range set.All() {
			if slot != 3 {
				t.Errorf("first slot: got %d", slot)
			}
			break
		}
	})

	t.Run("a slot beyond its end is not in it", func(t *testing.T) {
		if (Bitset{}).Has(1000) {
			t.Error("an empty set has slot 1000")
		}
	})
}
