// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// The resources that every node has, as positions in the arrays of nodeResources.
const (
	cpu     = iota // millicores
	memory         // bytes
	storage        // ephemeral, bytes
	numCore
)

// coreResources maps their names to these positions.
var coreResources = map[corev1.ResourceName]int{
	corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: storage,
}

// nodeTable holds the capacity and the requests of the nodes of the snapshot, as numbers by slot.
// All profiles share it. It belongs to the Engine and is updated through the change log.
type nodeTable struct {
	// pos is the position in the log up to which the table is up to date; 0 if it has not been
	// built.
	pos   uint64
	nodes []nodeResources
	// scalars are the columns of other resources that some class requests. in lists by slot the
	// columns in which the node has, or had, an amount; it is empty until there is a column.
	scalars map[corev1.ResourceName]*scalarColumn
	in      [][]*scalarColumn
	// bytes is the size of the table when it was last accounted.
	bytes int
}

// nodeResources holds the resources of one node, as in its NodeInfo.
type nodeResources struct {
	allocatable, requested [numCore]int64
	// nonZero are the requests if containers without a request for cpu or memory count with a small
	// one.
	nonZero       [numCore]int64
	pods, maxPods int64
	// nearness is the nearness of the requested shares of cpu and memory.
	nearness int64
}

func newNodeTable() *nodeTable {
	return &nodeTable{scalars: map[corev1.ResourceName]*scalarColumn{}}
}

// sync brings the table up to date with the snapshot.
func (t *nodeTable) sync(snapshot *cache.Snapshot) {
	if add := snapshot.Slots() - len(t.nodes); add > 0 {
		t.nodes = append(t.nodes, make([]nodeResources, add)...)
		for _, column := range t.scalars {
			column.grow(len(t.nodes))
		}
		if len(t.in) > 0 {
			t.in = fitted(t.in, len(t.nodes), nil)
		}
	}
	t.pos = catchUp(snapshot, t.pos, t.read)
}

// catchUp calls read for the slots that have changed since a position in the log, or for all slots
// if the log does not reach back that far. It returns the position up to which the slots have been
// read.
func catchUp(snapshot *cache.Snapshot, pos uint64, read func(*cache.Snapshot, cache.Slot)) uint64 {
	log := snapshot.Log()
	if changes, ok := log.Since(pos); ok {
		for _, change := range changes {
			read(snapshot, change.Slot)
		}
		return log.End()
	}
	for slot := range snapshot.Slots() {
		read(snapshot, cache.Slot(slot))
	}
	return log.End()
}

// read reads the node in a slot. The content of a slot without a node does not matter.
func (t *nodeTable) read(snapshot *cache.Snapshot, slot cache.Slot) {
	info := snapshot.Info(slot)
	if info == nil {
		return
	}
	allocatable, requested, nonZero := info.Allocatable, info.Requested, info.NonZeroRequested
	t.nodes[slot] = nodeResources{
		allocatable: [...]int64{allocatable.MilliCPU, allocatable.Memory, allocatable.EphemeralStorage},
		requested:   [...]int64{requested.MilliCPU, requested.Memory, requested.EphemeralStorage},
		nonZero:     [...]int64{nonZero.MilliCPU, nonZero.Memory, requested.EphemeralStorage},
		pods:        int64(len(info.Pods)),
		maxPods:     int64(allocatable.AllowedPodNumber),
	}
	if allocatable.MilliCPU != 0 && allocatable.Memory != 0 {
		t.nodes[slot].nearness = nearness(deviationOfPair(
			share(requested.MilliCPU, allocatable.MilliCPU), share(requested.Memory, allocatable.Memory)))
	}
	t.readScalars(slot, info)
}

// size estimates the memory of the columns.
func (t *nodeTable) size() int {
	return len(t.scalars)*16*len(t.nodes) + 24*cap(t.in)
}
