// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import "math/bits"

// ring holds the results of dry runs on nodes in a fixed order, the last of which the first one
// follows. It finds the candidates that a preemptor looks at, and the best of them, without looking
// at each: it is a segment tree, in which every change and question takes O(log n).
//
// Upstream begins at a random node and goes on until it has as many candidates as it wants and at
// least one of them violates no disruption budget, or has seen all nodes. It then takes the best
// candidate; see merit. A node whose result is not known counts as a candidate that violates none,
// so that a window may be too short, but never too long: all nodes in it are ones that upstream
// looks at, too. See search.window.
type ring struct {
	// results are those of the nodes, nil where it is not known.
	results []*dryRun
	// leaves is the number of leaves, a power of two. The children of tree[i] are tree[2*i] and
	// tree[2*i+1], the leaf of position p is tree[leaves+p].
	leaves int
	tree   []span
}

// span summarizes neighbouring positions of a ring.
type span struct {
	counts [3]int32
	// best is the position of the best known candidate, the first one of equals, or none.
	best int32
}

// The counts of a span.
const (
	// candidates is the number of candidates, which include unknown nodes.
	candidates = iota
	// safe is the number of those that violate no budget, which include unknown nodes.
	safe
	// unknown is the number of nodes whose results are not known.
	unknown
)

const none = -1

// reset makes a ring of these results, which it owns.
func (r *ring) reset(results []*dryRun) {
	r.results = results
	r.leaves = 1
	if len(results) > 1 {
		r.leaves = 1 << bits.Len(uint(len(results)-1))
	}
	if len(r.tree) != 2*r.leaves {
		r.tree = make([]span, 2*r.leaves)
	}
	for p := range r.leaves {
		r.tree[r.leaves+p] = r.leaf(p)
	}
	for i := r.leaves - 1; i > 0; i-- {
		r.combine(i)
	}
}

func (r *ring) len() int { return len(r.results) }

// set stores the result of a node, nil: it is not known.
func (r *ring) set(position int, result *dryRun) {
	r.results[position] = result
	i := r.leaves + position
	r.tree[i] = r.leaf(position)
	for i /= 2; i > 0; i /= 2 {
		r.combine(i)
	}
}

func (r *ring) leaf(position int) span {
	switch {
	case position >= len(r.results):
		return span{best: none}
	case r.results[position] == nil:
		return span{counts: [3]int32{candidates: 1, safe: 1, unknown: 1}, best: none}
	case r.results[position].victims == nil:
		return span{best: none}
	case r.results[position].merit.violations > 0:
		return span{counts: [3]int32{candidates: 1}, best: int32(position)}
	default:
		return span{counts: [3]int32{candidates: 1, safe: 1}, best: int32(position)}
	}
}

// combine computes a node of the tree from its children.
func (r *ring) combine(i int) {
	left, right := &r.tree[2*i], &r.tree[2*i+1]
	s := span{best: r.better(left.best, right.best)}
	for count := range s.counts {
		s.counts[count] = left.counts[count] + right.counts[count]
	}
	r.tree[i] = s
}

// better returns the better of two positions, the first one if they are equal. Each may be none.
func (r *ring) better(a, b int32) int32 {
	if a == none || b != none && r.results[b].merit.compare(&r.results[a].merit) < 0 {
		return b
	}
	return a
}

// window returns how many nodes a preemptor looks at that begins at a position and wants so many
// candidates.
func (r *ring) window(from int, wanted int32) int {
	return max(r.reach(candidates, from, wanted), r.reach(safe, from, 1))
}

// reach returns how many nodes one must look at, beginning at a position, until they add up to a
// number of a count. It returns the length of the ring if they never do.
func (r *ring) reach(count, from int, number int32) int {
	if number <= 0 {
		return 0
	}
	before := r.before(count, from)
	all := r.tree[1].counts[count]
	switch {
	case number > all:
		return r.len()
	case number <= all-before:
		return r.position(count, before+number) - from + 1
	default:
		return r.len() - from + r.position(count, number-(all-before)) + 1
	}
}

// before returns the sum of a count over all positions before one.
func (r *ring) before(count, position int) (sum int32) {
	for i := r.leaves + position; i > 1; i /= 2 {
		if i%2 == 1 {
			sum += r.tree[i-1].counts[count]
		}
	}
	return sum
}

// position returns the position at which a count, added up from the first position, reaches a
// number.
func (r *ring) position(count int, number int32) int {
	i := 1
	for i < r.leaves {
		i *= 2
		if left := r.tree[i].counts[count]; left < number {
			number -= left
			i++
		}
	}
	return i - r.leaves
}

// unknownIn returns the positions in a window whose results are not known, in the order of the
// window.
func (r *ring) unknownIn(from, length int) (positions []int) {
	if r.tree[1].counts[unknown] == 0 {
		return nil
	}
	for looked := r.reach(unknown, from, 1); looked <= length; {
		positions = append(positions, (from+looked-1)%r.len())
		looked += r.reach(unknown, (from+looked)%r.len(), 1)
	}
	return positions
}

// bestIn returns the position of the best candidate in a window, the first one of equals, or none.
func (r *ring) bestIn(from, length int) int {
	end := from + length
	best := r.bestBetween(from, min(end, r.len()))
	if end > r.len() {
		best = r.better(best, r.bestBetween(0, end-r.len()))
	}
	return int(best)
}

// bestBetween returns the best of the positions from begin up to, but not including, end.
func (r *ring) bestBetween(begin, end int) int32 {
	first, last := int32(none), int32(none)
	for i, j := r.leaves+begin, r.leaves+end; i < j; i, j = i/2, j/2 {
		if i%2 == 1 {
			first = r.better(first, r.tree[i].best)
			i++
		}
		if j%2 == 1 {
			j--
			last = r.better(r.tree[j].best, last)
		}
	}
	return r.better(first, last)
}
