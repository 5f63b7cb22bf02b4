// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// The resources that every node has, as positions in the arrays of nodeResources.
const (
	cpu     = iota // millicores
	memory         // bytes
	storage        // ephemeral, bytes
	numCore
)

// coreResources are they by name.
var coreResources = map[corev1.ResourceName]int{
	corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: storage,
}

// nodeTable holds the capacity of the nodes of the snapshot and the requests on them, as numbers by
// slot. All profiles share it. It belongs to the Engine and is kept up through the change log.
type nodeTable struct {
	// pos is the position in the log up to which it is right; 0 if it never was.
	pos   uint64
	nodes []nodeResources
	// scalars are the columns of other resources, those that some class asks for.
	scalars map[corev1.ResourceName]*scalarColumn
	// bytes is what the table was last accounted with.
	bytes int
}

// nodeResources is one node, as its NodeInfo has it.
type nodeResources struct {
	allocatable, requested [numCore]int64
	// nonZero are the requests if containers without a request for cpu or memory are taken to
	// have a small one.
	nonZero       [numCore]int64
	pods, maxPods int64
	// nearness is that of the shares of cpu and memory that are requested.
	nearness int64
}

// scalarColumn is a resource that not every node has, such as an extended one or huge pages.
type scalarColumn struct {
	allocatable, requested []int64 // by slot
	// users is the number of localRows that hold the column.
	users int
}

func newNodeTable() *nodeTable {
	return &nodeTable{scalars: map[corev1.ResourceName]*scalarColumn{}}
}

// sync brings the table up to the snapshot.
func (t *nodeTable) sync(snapshot *cache.Snapshot) {
	if add := snapshot.Slots() - len(t.nodes); add > 0 {
		t.nodes = append(t.nodes, make([]nodeResources, add)...)
		for _, column := range t.scalars {
			column.grow(len(t.nodes))
		}
	}
	t.pos = catchUp(snapshot, t.pos, t.read)
}

// catchUp has the slots read to which something has happened since a position in the log, or all if
// the log does not say, and returns the position up to which they are read then.
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

// read reads the node in a slot. What is in the slot of a node that is gone does not matter.
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
	for name, column := range t.scalars {
		column.read(name, slot, info)
	}
}

// hold returns the column of a resource, to be given back with release.
func (t *nodeTable) hold(name corev1.ResourceName, snapshot *cache.Snapshot) *scalarColumn {
	column, ok := t.scalars[name]
	if !ok {
		column = &scalarColumn{}
		column.grow(snapshot.Slots())
		for slot := range column.allocatable {
			if info := snapshot.Info(cache.Slot(slot)); info != nil {
				column.read(name, cache.Slot(slot), info)
			}
		}
		t.scalars[name] = column
	}
	column.users++
	return column
}

// release gives a column back. It goes with its last user.
func (t *nodeTable) release(name corev1.ResourceName) {
	column := t.scalars[name]
	if column.users--; column.users == 0 {
		delete(t.scalars, name)
	}
}

func (c *scalarColumn) grow(slots int) {
	if len(c.allocatable) >= slots {
		return
	}
	c.allocatable = append(c.allocatable, make([]int64, slots-len(c.allocatable))...)
	c.requested = append(c.requested, make([]int64, slots-len(c.requested))...)
}

func (c *scalarColumn) read(name corev1.ResourceName, slot cache.Slot, info *schedframework.NodeInfo) {
	c.allocatable[slot] = info.Allocatable.ScalarResources[name]
	c.requested[slot] = info.Requested.ScalarResources[name]
}

// size is about what the columns hold in memory.
func (t *nodeTable) size() int {
	return len(t.scalars) * 16 * len(t.nodes)
}
