// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// grouping is how a twin last grouped the nodes.
type grouping struct {
	cross Tracker
	epoch uint64
	moved uint64   // the position in Moved
	keys  []string // by slot, "" for one without a node
}

// compareGroups lets one node of each group represent the others, and expects the results of all
// nodes. It also expects that the keys of unchanged nodes stay the same.
func (r *run) compareGroups(t *testing.T, k *class, where string) {
	for i, cross := range k.crosses {
		if cross == nil || cross.Idle() {
			continue
		}
		now := r.group(cross)
		old := k.groups[i]
		moved, end, known := cross.Moved(old.moved)
		now.moved = end
		if old.cross == cross && old.epoch == now.epoch && known {
			for slot, key := range old.keys {
				updated := k.updated[cache.Slot(slot)]
				if key != now.keys[slot] && !updated && slices.Contains(moved, cache.Slot(slot)) {
					r.moved++
					continue
				}
				if key != now.keys[slot] && !updated {
					t.Errorf("%s: the key of slot %d went from %q to %q while nothing happened to it", where, slot, key,
						now.keys[slot])
				}
			}
			r.kept++
		}
		k.groups[i] = now
		r.compareVerdicts(t, cross, now.keys, where)
		r.compareGroupScores(t, cross, now.keys, where)
	}
	clear(k.updated)
}

func (r *run) group(cross Tracker) grouping {
	g := grouping{cross: cross, epoch: cross.GroupsEpoch(), keys: make([]string, r.snapshot.Slots())}
	for slot := range g.keys {
		if r.snapshot.Alive(cache.Slot(slot)) {
			g.keys[slot] = string(cross.AppendGroup([]byte("x"), cache.Slot(slot)))
		}
	}
	return g
}

// compareVerdicts fails if one node of a group fits and another does not.
func (r *run) compareVerdicts(t *testing.T, cross Tracker, keys []string, where string) {
	first := map[string]cache.Slot{}
	for slot, key := range keys {
		if key == "" {
			continue
		}
		one, ok := first[key]
		if !ok {
			first[key] = cache.Slot(slot)
			continue
		}
		if accepts(cross, one) != accepts(cross, cache.Slot(slot)) {
			t.Errorf("%s: %T lets only one of the slots %d and %d pass, of one group", where, cross, one, slot)
		}
	}
	// Of sorted keys, one that is the beginning of others is that of the next, too.
	sorted := slices.Sorted(maps.Keys(first))
	for i := 1; i < len(sorted); i++ {
		if strings.HasPrefix(sorted[i], sorted[i-1]) {
			t.Errorf("%s: the key %q begins with %q", where, sorted[i], sorted[i-1])
		}
	}
	if alive := r.snapshot.NumNodes(); len(first) <= alive/2 {
		r.grouped++
	}
}

// compareGroupScores scores nodes one by one and by group; some groups are feasible and others not.
func (r *run) compareGroupScores(t *testing.T, cross Tracker, keys []string, where string) {
	feasible := map[string]bool{}
	at := map[string]int{}
	var all, some []cache.Slot
	var sizes []int32
	share := 1 + r.IntN(100)
	for _, slot := range r.order() {
		key := keys[slot]
		if _, ok := feasible[key]; !ok {
			feasible[key] = r.chance(share)
		}
		if !feasible[key] {
			continue
		}
		all = append(all, slot)
		if i, ok := at[key]; ok {
			sizes[i]++
			continue
		}
		at[key] = len(some)
		some, sizes = append(some, slot), append(sizes, 1)
	}
	scores, groups := make([]int64, len(all)), make([]int64, len(some))
	ok, okay := cross.Score(all, nil, scores), cross.Score(some, sizes, groups)
	if ok != okay {
		t.Errorf("%s: %T scores nodes: %v, groups: %v", where, cross, ok, okay)
	}
	if !ok {
		return
	}
	want := make([]int64, len(all))
	for i, slot := range all {
		want[i] = groups[at[keys[slot]]]
	}
	if !slices.Equal(scores, want) {
		t.Errorf("%s: %T: scores %v, by groups %v", where, cross, scores, want)
	}
}
