// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package changelog

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSince(t *testing.T) {
	// Each letter is an entry, and | is a gap.
	type writes struct {
		keep    int
		entries string
	}
	for name, test := range map[string]struct {
		first, then writes
		// back is how far before the end the position is.
		back uint64
		want string
		ok   bool
	}{
		"an empty log, at its end":   {ok: true},
		"an empty log, never read":   {back: 1},
		"at the end":                 {first: writes{2, "a"}, ok: true},
		"one entry":                  {first: writes{2, "ab"}, back: 1, want: "b", ok: true},
		"all entries":                {first: writes{2, "ab"}, back: 2, want: "ab", ok: true},
		"never read":                 {first: writes{2, "ab"}, back: 3},
		"beyond the end":             {first: writes{2, "ab"}, back: ^uint64(0)},
		"full":                       {first: writes{1, "ab"}, back: 2, want: "ab", ok: true},
		"the rest of a full log":     {first: writes{1, "abc"}, back: 2, want: "bc", ok: true},
		"an entry was dropped":       {first: writes{1, "abc"}, back: 3},
		"from now on more are kept":  {first: writes{1, "ab"}, then: writes{2, "c"}, back: 3, want: "abc", ok: true},
		"from now on fewer are kept": {first: writes{3, "abc"}, then: writes{1, "d"}, back: 2, want: "cd", ok: true},
		"more than half was dropped": {first: writes{3, "abc"}, then: writes{1, "d"}, back: 3},
		"after a gap":                {first: writes{2, "a|b"}, back: 1, want: "b", ok: true},
		"at a gap":                   {first: writes{2, "a|"}, ok: true},
		"before a gap":               {first: writes{2, "a|b"}, back: 2},
		"before a gap at the start":  {first: writes{2, "|"}, back: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var l Log[rune]
			for _, writes := range []writes{test.first, test.then} {
				for _, entry := range writes.entries {
					if entry == '|' {
						l.Cut()
					} else {
						l.Add(entry, writes.keep)
					}
				}
			}
			if got, ok := l.Since(l.End() - test.back); ok != test.ok || string(got) != test.want {
				t.Errorf("got %q, %v, want %q, %v", string(got), ok, test.want, test.ok)
			}
		})
	}
}

// twin keeps all entries of a log by position, and what readers hold.
type twin struct {
	t    *testing.T
	log  Log[int]
	all  map[uint64]int
	next uint64 // the position of the next entry
	gap  uint64 // the last position that a gap has made invalid
	// kept is the number of entries that the log must have.
	kept int
	// held are entries that a reader still uses, and what they were when it read them.
	held, were []int
}

func (w *twin) add(entry, keep int, shared bool) {
	if shared {
		w.log.AddShared(entry, keep)
	} else {
		w.log.Add(entry, keep)
		w.held, w.were = nil, nil
	}
	w.all[w.next] = entry
	w.next++
	w.kept = min(w.kept+1, keep)
	if kept := len(w.log.entries); kept > 2*keep {
		w.t.Fatalf("%d entries are kept, more than twice %d", kept, keep)
	}
}

func (w *twin) cut(shared bool) {
	if shared {
		w.log.CutShared()
	} else {
		w.log.Cut()
		w.held, w.were = nil, nil
	}
	w.gap, w.kept = w.next, 0
	w.next++
}

// check compares what the log says about a position.
func (w *twin) check(pos uint64) {
	w.t.Helper()
	if end := w.log.End(); end != w.next {
		w.t.Fatalf("the end is %d, want %d", end, w.next)
	}
	got, ok := w.log.Since(pos)
	switch {
	case pos == 0 || pos <= w.gap || pos > w.next:
		if ok {
			w.t.Fatalf("the log has position %d; the gap is at %d and the end at %d", pos, w.gap, w.next)
		}
		return
	case !ok:
		if w.next-pos <= uint64(w.kept) {
			w.t.Fatalf("position %d of %d is gone, although %d entries are to be kept", pos, w.next, w.kept)
		}
		return
	}
	var want []int
	for p := pos; p < w.next; p++ {
		want = append(want, w.all[p])
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("since %d: got %v, want %v", pos, got, want)
	}
}

// A log that is written and read at random has the entries that a complete list has.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(64) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &twin{t: t, all: map[uint64]int{}, next: 1}
		shared := seed%2 == 0
		for step := range 120 {
			switch n := r.IntN(20); {
			case n < 14:
				w.add(step, 1+r.IntN(1+int(seed%16)), shared)
			case n == 14:
				w.cut(shared)
			default:
				if entries, ok := w.log.Since(w.next - min(w.next, r.Uint64N(8))); ok {
					w.held, w.were = entries, slices.Clone(entries)
				}
			}
			if !slices.Equal(w.held, w.were) {
				t.Fatalf("seed %d, step %d: what a reader holds has changed from %v to %v", seed, step, w.were, w.held)
			}
			for pos := range w.next + 3 {
				w.check(pos)
			}
		}
	}
}

// A log that is full costs no memory any more.
func TestAddAllocatesNothing(t *testing.T) {
	var l Log[int]
	add := func() {
		for i := range 8 {
			l.Add(i, 2)
		}
	}
	add()
	if allocations := testing.AllocsPerRun(10, add); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}
