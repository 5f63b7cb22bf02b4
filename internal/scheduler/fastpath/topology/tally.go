// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "github.com/livesched/livesched/internal/scheduler/cache"

// tally is a topology spread constraint with the number of pods that it counts in each domain.
type tally struct {
	rule
	places
	counter int
	// self is 1 if the class's own pods match the selector.
	self int
	// perNode is true if Score counts the pods of each node separately, whatever the inclusion
	// policies.
	perNode bool

	counts []bool // by slot: whether the node's pods count
	// pods and nodes are the numbers of pods and nodes that count, by place.
	pods  []int32
	nodes []int32
	// domains is the number of places with nodes that count.
	domains int
	least   least

	// The rest is scratch space for Score, by place: seen is the pass in which a feasible node was
	// last seen there, and terms is the contribution of the place to a score. found lists the
	// places seen in the current pass.
	pass  uint64
	seen  []uint64
	terms []float64
	found []int32
}

// grow makes room for slots and domains.
func (t *tally) grow(slots int) {
	t.at = grow(t.at, slots)
	t.counts = grow(t.counts, slots)
	t.pods = grow(t.pods, t.bound())
	t.nodes = grow(t.nodes, t.bound())
}

// move recounts a node: it removes the node from the place where it was counted and adds it to its
// current place if it counts. before is the number of its pods that were counted, after the number
// now. It logs the other nodes of a domain whose number of pods has changed.
func (t *tally) move(slot cache.Slot, counts bool, before, after int32, moved *moved) {
	from, to := t.at[slot], t.now(slot)
	pods := [...]int32{t.pods[from], t.pods[to]}
	counted := t.counts[slot]
	t.at[slot], t.counts[slot] = to, counts
	if counted && counts && from == to {
		t.add(to, 0, after-before)
	} else {
		if counted {
			t.add(from, -1, -before)
		}
		if counts {
			t.add(to, 1, after)
		}
	}
	if t.pods[from] != pods[0] {
		moved.add(&t.places, from)
	}
	if from != to && t.pods[to] != pods[1] {
		moved.add(&t.places, to)
	}
}

// add adds nodes and pods to a place.
func (t *tally) add(place, nodes, pods int32) {
	before := t.counted(place)
	t.nodes[place] += nodes
	t.pods[place] += pods
	after := t.counted(place)
	t.least.changed(before, after)
	switch {
	case before < 0 && after >= 0:
		t.domains++
	case before >= 0 && after < 0:
		t.domains--
	}
}

// counted returns the number of pods in a place, or -1 if no node there counts.
func (t *tally) counted(place int32) int32 {
	if t.nodes[place] == 0 {
		return -1
	}
	return t.pods[place]
}

// minimum returns the number of pods from which the skew is measured: the lowest number in a
// domain, or 0 if there are fewer domains than the constraint requires.
func (t *tally) minimum() int {
	if t.domains < int(t.minDomains) {
		return 0
	}
	return int(t.least.of(t.pods, t.nodes))
}
