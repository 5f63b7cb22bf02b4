// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// Memory is what attempts on a snapshot leave to later ones. It belongs to the goroutine that owns
// the snapshot. The zero Memory is empty.
type Memory struct {
	// freed has the nodes by slot as they would be without their pods of a lower priority than the
	// key. groups is the version of the groups that priorities of pods come from.
	freed  map[int32][]freedNode
	groups uint64
	// place and evict have the domains with which the next attempts begin to place groups, and to
	// look for victims.
	place, evict bookmarks
	// orders are the orders in which the members of groups got nodes when victims were looked for,
	// and none were needed.
	orders map[podgroup.Key][]types.UID
}

// setOrder lets the next attempt at a group begin with some members, in this order.
func (m *Memory) setOrder(group podgroup.Key, members []types.UID) {
	if m.orders == nil || len(m.orders) >= maxGroups { // most are gone
		m.orders = map[podgroup.Key][]types.UID{}
	}
	m.orders[group] = members
}

// takeOrder returns the indexes of members in the order that was set, and forgets it. known is
// false if none was.
func (m *Memory) takeOrder(group podgroup.Key, members []fwk.PodInfo) (order []int, known bool) {
	first, known := m.orders[group]
	delete(m.orders, group)
	order = make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	if !known {
		return order, false
	}
	rank := make(map[types.UID]int, len(first))
	for i, uid := range first {
		rank[uid] = i - len(first) // before those that have none
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(rank[members[a].GetPod().UID], rank[members[b].GetPod().UID])
	})
	return order, true
}

// bookmarks are domains that groups begin with.
type bookmarks map[podgroup.Key]podgroup.Domain

// set lets a group begin with a domain.
func (b *bookmarks) set(group podgroup.Key, domain podgroup.Domain) {
	if *b == nil || len(*b) >= maxGroups { // most are gone
		*b = bookmarks{}
	}
	(*b)[group] = domain
}

// take returns the index of the domain with which a group begins, and forgets it: the first one
// unless another is set.
func (b bookmarks) take(group podgroup.Key, domains []podgroup.Domain) int {
	from, ok := b[group]
	delete(b, group)
	if !ok {
		return 0
	}
	return max(0, slices.IndexFunc(domains, func(d podgroup.Domain) bool { return slices.Equal(d, from) }))
}

// freedNode is a node without some of its pods, made from a version of it.
type freedNode struct {
	of      fwk.NodeInfo
	version uint64
	without fwk.NodeInfo
}

// maxPriorities and maxGroups bound the memory.
const (
	maxPriorities = 4
	maxGroups     = 1024
)

// freedNodes returns the nodes of a snapshot as they would be without their pods of a lower
// priority. Only nodes that have changed are looked at anew. victims is nil if all pods have a
// lower one.
func (m *Memory) freedNodes(snapshot *cache.Snapshot, priority int32, victims *preemption.Victims) []fwk.NodeInfo {
	priorityOf := corev1helpers.PodPriority
	if victims != nil {
		priorityOf = victims.PriorityOf
		if version := victims.Version(); version != m.groups {
			clear(m.freed)
			m.groups = version
		}
	}
	if _, known := m.freed[priority]; !known && len(m.freed) >= maxPriorities {
		clear(m.freed)
	}
	known := m.freed[priority]
	known = slices.Grow(known, max(0, snapshot.Slots()-len(known)))[:snapshot.Slots()]
	nodes := make([]fwk.NodeInfo, 0, snapshot.NumNodes())
	for i := range known {
		slot := cache.Slot(i)
		if !snapshot.Alive(slot) {
			known[i] = freedNode{}
			continue
		}
		if node, version := snapshot.Info(slot), snapshot.Version(slot); known[i].of != node ||
			known[i].version != version {
			known[i] = freedNode{of: node, version: version, without: podgroup.Freed(node, priority, priorityOf)}
		}
		nodes = append(nodes, known[i].without)
	}
	if m.freed == nil {
		m.freed = map[int32][]freedNode{}
	}
	m.freed[priority] = known
	return nodes
}
