// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

// zoneOrder decides in which order nodes are listed: one of each zone in turn, zones and the nodes
// in them by how long they have been known. It is kube-scheduler's node tree, which makes a sample
// of the first so many nodes a sample of all zones. Here it only gives out numbers; snapshots make
// lists from them.
//
// It has no lock; Cache.mu guards it.
type zoneOrder struct {
	// zones by their key, the node's region and zone.
	zones map[string]*zone
	// next is the number that the next zone or node gets. Numbers are never used again.
	next uint64
}

// zone is a zone that has nodes. One that has lost them all and gets some again is a new one.
type zone struct {
	key   string
	seq   uint64
	nodes int
}

// enter makes a node the last one of a zone.
func (o *zoneOrder) enter(n *node, key string) {
	z, ok := o.zones[key]
	if !ok {
		z = &zone{key: key, seq: o.number()}
		o.zones[key] = z
	}
	z.nodes++
	n.zone, n.place = z, o.number()
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
