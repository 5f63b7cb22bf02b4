// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"testing"
)

func TestLog(t *testing.T) {
	t.Run("a reader that has never read must start again", func(t *testing.T) {
		log := Log{first: 1}
		if _, ok := log.Since(0); ok {
			t.Error("position 0 was served")
		}
	})

	t.Run("a reader gets what came after its position", func(t *testing.T) {
		log := Log{first: 1}
		pos := log.End()
		want := []Change{{Slot: 1, Kind: PodAdded, Pod: 3}, {Slot: 2, Kind: NodeRemoved}}
		for _, change := range want {
			log.add(change, 0)
		}
		if got, ok := log.Since(pos); !ok || !slices.Equal(got, want) {
			t.Errorf("got %v, %v", got, ok)
		}
		if got, ok := log.Since(pos + 1); !ok || !slices.Equal(got, want[1:]) {
			t.Errorf("from the second on: got %v, %v", got, ok)
		}
		if got, ok := log.Since(log.End()); !ok || len(got) != 0 {
			t.Errorf("at the end: got %v, %v", got, ok)
		}
	})

	t.Run("a position beyond the end, read from another log, is rejected", func(t *testing.T) {
		log := Log{first: 1}
		if _, ok := log.Since(log.End() + 1); ok {
			t.Error("it was served")
		}
	})

	t.Run("it keeps the promised length, and a reader that fell behind gets nothing", func(t *testing.T) {
		for _, slots := range []int{0, 3 * minLogEntries} {
			log := Log{first: 1}
			promised := max(slots, minLogEntries)
			start := log.End()
			for i := range 5 * promised {
				log.add(Change{Slot: Slot(i)}, slots)
				if log.End() != start+uint64(i)+1 {
					t.Fatalf("%d slots: after %d entries the end is at %d, from %d", slots, i+1, log.End(), start)
				}
				reach := min(i+1, promised)
				changes, ok := log.Since(log.End() - uint64(reach))
				if !ok || len(changes) != reach || changes[0].Slot != Slot(i+1-reach) {
					t.Fatalf("%d slots, entry %d: the last %d entries are not there", slots, i, reach)
				}
				if _, ok := log.Since(log.first - 1); ok {
					t.Fatalf("%d slots, entry %d: a reader that fell off was served", slots, i)
				}
				if len(log.entries) > 2*promised {
					t.Fatalf("%d entries are kept", len(log.entries))
				}
			}
		}
	})

	t.Run("no reader passes a gap", func(t *testing.T) {
		log := Log{first: 1}
		log.add(Change{}, 0)
		pos := log.End()
		log.cut()
		if _, ok := log.Since(pos); ok {
			t.Error("a reader got over it")
		}
		if _, ok := log.Since(log.End()); !ok {
			t.Error("a reader that starts after it is refused")
		}
	})
}
