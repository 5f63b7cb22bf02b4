// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// nodeTree holds a snapshot's nodes by zone, each zone in the order in which its nodes were added,
// so that they can be listed in the order of zoneOrder. Adding or removing a node costs a search in
// its zone.
type nodeTree struct {
	// zones are sorted by seq. None of them is empty.
	zones []treeZone
	// at is the place of each slot.
	at []treePlace
}

type treeZone struct {
	seq   uint64
	nodes []treeNode // by place
}

type treeNode struct {
	place uint64
	slot  Slot
}

// treePlace is a node's zone and its place in it. The zero value means that the node is not in the
// tree.
type treePlace struct{ zone, place uint64 }

func (t *nodeTree) zone(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(t.zones, seq, func(z treeZone, seq uint64) int { return cmp.Compare(z.seq, seq) })
}

func (z *treeZone) node(place uint64) (int, bool) {
	return slices.BinarySearchFunc(z.nodes, place,
		func(n treeNode, place uint64) int { return cmp.Compare(n.place, place) })
}

// put adds or moves a slot, and reports whether the order changed.
func (t *nodeTree) put(slot Slot, n *node) bool {
	for int(slot) >= len(t.at) {
		t.at = append(t.at, treePlace{})
	}
	place := treePlace{n.zone.seq, n.place}
	if t.at[slot] == place {
		return false
	}
	t.remove(slot)
	t.at[slot] = place
	i, ok := t.zone(place.zone)
	if !ok {
		t.zones = slices.Insert(t.zones, i, treeZone{seq: place.zone})
	}
	z := &t.zones[i]
	j, _ := z.node(place.place)
	z.nodes = slices.Insert(z.nodes, j, treeNode{place.place, slot})
	return true
}

// remove removes a slot, if it is in the tree.
func (t *nodeTree) remove(slot Slot) {
	place := t.at[slot]
	if place == (treePlace{}) {
		return
	}
	t.at[slot] = treePlace{}
	i, _ := t.zone(place.zone)
	z := &t.zones[i]
	j, _ := z.node(place.place)
	z.nodes = slices.Delete(z.nodes, j, j+1)
	if len(z.nodes) == 0 {
		t.zones = slices.Delete(t.zones, i, i+1)
	}
}

// slots lists all n slots, one of each zone in turn.
func (t *nodeTree) slots(n int) []Slot {
	longest := 0
	for z := range t.zones {
		longest = max(longest, len(t.zones[z].nodes))
	}
	slots := make([]Slot, 0, n)
	for i := range longest {
		for z := range t.zones {
			if nodes := t.zones[z].nodes; i < len(nodes) {
				slots = append(slots, nodes[i].slot)
			}
		}
	}
	return slots
}

// nodeOrder lists the nodes in their order.
type nodeOrder struct {
	slots []Slot
	infos []fwk.NodeInfo
	// rank is the position of each listed slot, by slot.
	rank []int32
}

// ordered returns the order of nodes. The first call after a change computes it.
func (s *Snapshot) ordered() *nodeOrder {
	if order := s.listed.Load(); order != nil {
		return order
	}
	s.lazy.Lock()
	defer s.lazy.Unlock()
	if order := s.listed.Load(); order != nil {
		return order
	}
	order := &nodeOrder{slots: s.tree.slots(len(s.slots)), rank: make([]int32, len(s.infos))}
	order.infos = make([]fwk.NodeInfo, len(order.slots))
	for i, slot := range order.slots {
		order.infos[i] = s.infos[slot]
		order.rank[slot] = int32(i)
	}
	s.listed.Store(order)
	return order
}

// subset lists the nodes of a set in the order of nodes. A small set is sorted; for a large one it
// is cheaper to walk the order.
func (o *nodeOrder) subset(set Bitset) []fwk.NodeInfo {
	infos := make([]fwk.NodeInfo, 0, set.Len())
	if set.Len()*16 > len(o.slots) {
		for i, slot := range o.slots {
			if set.Has(slot) {
				infos = append(infos, o.infos[i])
			}
		}
		return infos
	}
	ranks := make([]int32, 0, set.Len())
	for slot := range set.All() {
		ranks = append(ranks, o.rank[slot])
	}
	slices.Sort(ranks)
	for _, rank := range ranks {
		infos = append(infos, o.infos[rank])
	}
	return infos
}
