// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// trackerOf groups slots by a number of each.
type trackerOf struct {
	topology.Tracker
	numbers []byte
}

func (t *trackerOf) AppendGroup(key []byte, slot cache.Slot) []byte {
	return append(key, t.numbers[slot])
}

// TestGroupsMatchAMap moves slots between groups and buckets, and compares with a search
// through all slots.
func TestGroupsMatchAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const slots = 100
	tracks := &trackerOf{numbers: make([]byte, slots)}
	rows := &localRows{
		columns:    columns{verdict: make([]uint16, slots), fixed: make([]int64, slots)},
		normalized: [][]int64{make([]int64, slots), nil, make([]int64, slots)},
		skips:      []bool{false, false, true},
	}
	for i := range rows.verdict {
		rows.verdict[i] = noNode
	}
	g := rows.groupsBy([]*tracker{{Tracker: tracks}})
	for step := range 20_000 {
		slot := cache.Slot(r.IntN(slots))
		rows.fixed[slot] = r.Int64N(5) * 1000
		rows.normalized[2][slot] = r.Int64N(100) // skipped
		if r.IntN(3) > 0 {
			g.move(slot)
		} else {
			rows.verdict[slot] = uint16(r.IntN(3))
			rows.normalized[0][slot] = r.Int64N(2) * 200
			tracks.numbers[slot] = byte(r.IntN(3))
			g.put(slot)
		}
		switch step {
		case 5_000, 15_000: // all of them become equal, and diverge again
			for i := range slots {
				rows.verdict[i], rows.fixed[i], rows.normalized[0][i], tracks.numbers[i] = fits, 0, 0, 0
				g.put(cache.Slot(i))
			}
		case 10_000:
			rows.images = &imageColumn{kindOf: make([]int32, slots)}
			for i := range rows.images.kindOf {
				rows.images.kindOf[i] = r.Int32N(3)
				g.put(cache.Slot(i))
			}
			rows.normalized[1] = make([]int64, slots)
		}
		if rows.normalized[1] != nil && r.IntN(10) == 0 {
			rows.normalized[1][slot] = r.Int64N(2)
			g.put(slot)
		}
		compareGroups(t, g, func(slot int) string {
			var second int64
			if rows.normalized[1] != nil {
				second = rows.normalized[1][slot]
			}
			return fmt.Sprint(rows.normalized[0][slot], second, tracks.numbers[slot], rows.kindOf(cache.Slot(slot)))
		}, step)
	}
}

func compareGroups(t *testing.T, g *groups, key func(slot int) string, step int) {
	t.Helper()
	members := map[string][]cache.Slot{}
	best := map[string][]cache.Slot{}
	sum := func(slot cache.Slot) int64 { return g.rows.fixed[slot] }
	for i, verdict := range g.rows.verdict {
		slot := cache.Slot(i)
		if verdict != fits {
			if g.in[slot] >= 0 {
				t.Fatalf("step %d: slot %d is in a group and does not fit", step, slot)
			}
			continue
		}
		of := key(i)
		members[of] = append(members[of], slot)
		switch now := best[of]; {
		case len(now) == 0 || sum(slot) > sum(now[0]):
			best[of] = []cache.Slot{slot}
		case sum(slot) == sum(now[0]):
			best[of] = append(now, slot)
		}
	}
	representatives := g.representatives(nil)
	if len(representatives) != len(members) || len(g.numbers) != len(members) {
		t.Fatalf("step %d: %d representatives, %d keys of %d groups", step, len(representatives), len(g.numbers),
			len(members))
	}
	for _, slot := range representatives {
		of := key(int(slot))
		number := g.of(slot)
		got := slices.Sorted(slices.Values(g.best(number)))
		if !slices.Contains(got, slot) || !slices.Equal(got, best[of]) {
			t.Fatalf("step %d: the best of group %q are %v, represented by %d, want %v", step, of, got, slot, best[of])
		}
		if int(g.list[number].size) != len(members[of]) {
			t.Fatalf("step %d: group %q has the size %d, want %d", step, of, g.list[number].size, len(members[of]))
		}
		for _, member := range members[of] {
			if g.of(member) != number {
				t.Fatalf("step %d: slot %d is in another group than %d", step, member, slot)
			}
		}
		delete(members, of) // no group has two members
	}
	held := 0
	for i := range g.buckets {
		held += cap(g.buckets[i].slots)
	}
	if held != g.held {
		t.Fatalf("step %d: buckets have room for %d slots, %d are accounted", step, held, g.held)
	}
}

func TestRowsWithTheSameTrackersShareGroups(t *testing.T) {
	rows, one, other := &localRows{}, &tracker{}, &tracker{}
	first := rows.groupsBy([]*tracker{one})
	if rows.groupsBy([]*tracker{one}) != first {
		t.Error("the same trackers, other groups")
	}
	for _, trackers := range [][]*tracker{nil, {other}, {one, other}} {
		if rows.groupsBy(trackers) == first {
			t.Errorf("the same groups for %d other trackers", len(trackers))
		}
	}
}

// Bytes returns the size that a tracker is accounted with.
func (t *trackerOf) Bytes() int { return 1000 + len(t.numbers) }

func TestSharedPartsOfClassesAreCountedOnce(t *testing.T) {
	s := newScene(t, 10, 0)
	trackers := map[string]*tracker{}
	shared := &tracker{Tracker: &trackerOf{}, in: trackers, key: "shared"}
	own := &tracker{Tracker: &trackerOf{}, in: trackers, key: "own"}
	trackers["shared"], trackers["own"] = shared, own
	for _, app := range []string{"a", "b"} {
		s.expect(s.pod(app), None)
		c := s.engine.lent.decision.class
		shared.users++
		c.trackers = append(c.trackers, shared)
		if app == "b" {
			own.users++
			c.trackers = append(c.trackers, own)
		}
		before := s.engine.classes.bytes
		c.setGroups(&s.engine.classes.budget, c.local.groupsBy([]*tracker{shared}))
		s.engine.classes.account(c)
		added, groups := s.engine.classes.bytes-before, c.groups.size()
		if want := 1000 + groups; app == "a" && added != want || app == "b" && added != 1000 {
			t.Errorf("class %s: %d bytes more", app, added)
		}
	}
	first, second := s.engine.classes.residents.victim(nil), s.engine.lent.decision.class
	rows := second.local
	s.engine.classes.drop(first)
	if len(trackers) != 2 || len(rows.groups) != 1 {
		t.Error("what another class uses is gone")
	}
	s.engine.classes.drop(second)
	if s.engine.classes.bytes != 0 || len(trackers) != 0 || len(rows.groups) != 0 {
		t.Errorf("%d bytes, %d trackers and %d groups are left", s.engine.classes.bytes, len(trackers),
			len(rows.groups))
	}
}

func TestRelevanceIsCached(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var memory relevance
	asked := map[cache.ClassID]bool{}
	remembered := 0
	for range 20_000 {
		id := cache.ClassID(1 + r.IntN(3*maxRelevant))
		want, ok := asked[id]
		got, known := memory.of(id)
		switch {
		case known && !ok:
			t.Fatalf("class %d was never asked about", id)
		case known && got != want:
			t.Fatalf("class %d is relevant: %v, want %v", id, got, want)
		case known:
			remembered++
		default:
			asked[id] = ok && want || !ok && r.IntN(2) == 0
			memory.remember(id, asked[id], len(asked))
		}
	}
	if remembered < 1000 || memory.size() != 8*maxRelevant {
		t.Errorf("%d answers were remembered, in %d bytes", remembered, memory.size())
	}
}

func TestTies(t *testing.T) {
	var ties ties
	ties.add([]cache.Slot{3, 1})
	ties.add(nil)
	ties.add([]cache.Slot{2})
	if all := slices.Collect(ties.all()); ties.len() != 3 || !slices.Equal(all, []cache.Slot{3, 1, 2}) {
		t.Fatalf("%d: %v", ties.len(), all)
	}
	for i, want := range []cache.Slot{3, 1, 2} {
		if got := ties.at(i); got != want {
			t.Errorf("%d: %d, want %d", i, got, want)
		}
	}
	for slot := range ties.all() {
		if slot == 1 {
			break
		}
	}
}

// fresh is a tracker that is never stale.
type fresh struct{ topology.Tracker }

func (fresh) Stale() bool { return false }

func TestClassesShareTrackers(t *testing.T) {
	s := newScene(t, 3, 0)
	s.expect(s.pod("a"), None)
	r := &s.engine.lent.decision.refresher
	trackers, made := map[string]*tracker{}, 0
	classOf := func(requests, labels string) *class {
		c := &class{key: requests + labels, local: &localRows{key: requests}}
		c.shareTracker(r, trackers, c.cross(), func() *tracker {
			made++
			return &tracker{Tracker: fresh{}}
		})
		return c
	}
	classes := []*class{classOf("small ", "web"), classOf("large ", "web"), classOf("large ", "db")}
	if made != 2 || classes[0].trackers[0] != classes[1].trackers[0] ||
		classes[1].trackers[0] == classes[2].trackers[0] {
		t.Errorf("%d trackers were made", made)
	}
	for i, left := range []int{2, 1, 0} {
		if classes[i].dropTrackers(&s.engine.classes.budget); len(trackers) != left {
			t.Errorf("%d trackers are left after class %d, want %d", len(trackers), i, left)
		}
	}
}
