// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

// zoneOrder determines the order in which nodes are listed: one of each zone in turn, zones and the
// nodes in them in the order in which they were added. This is the order of kube-scheduler's node
// tree, in which the first nodes are a sample of all zones. zoneOrder only assigns numbers;
// snapshots make lists from them.
//
// It has no lock; Cache.mu guards it.
type zoneOrder struct {
	// zones are the zones by their key, the node's region and zone.
	zones map[string]*zone
	// next is the number of the next zone or node. Numbers are never reused.
	next uint64
}

// zone is a zone that has nodes. A zone that loses its last node and gets another one later is a
// new zone.
type zone struct {
	key   string
	seq   uint64
	nodes int
}

// enter adds a node as the last one of a zone.
func (o *zoneOrder) enter(n *node, key string) {
	z, ok := o.zones[key]
	if !ok {
		z = &zone{key: key, seq: o.number()}
		o.zones[key] = z
	}
	z.nodes++
	n.zone, n.place = z, o.number()
}

// adopt counts a node of a zone of another order, whose numbers it keeps.
func (o *zoneOrder) adopt(of zone) *zone {
	z, ok := o.zones[of.key]
	if !ok {
		z = &zone{key: of.key, seq: of.seq}
		o.zones[of.key] = z
	}
	z.nodes++
	return z
}

func (o *zoneOrder) leave(n *node) {
	n.zone.nodes--
	if n.zone.nodes == 0 {
		delete(o.zones, n.zone.key)
	}
	n.zone, n.place = nil, 0
}

func (o *zoneOrder) number() uint64 {
	o.next++
	return o.next
}
