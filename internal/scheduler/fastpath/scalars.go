// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	corev1 "k8s.io/api/core/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// scalarColumn is a resource that not every node has, such as an extended one or huge pages.
type scalarColumn struct {
	allocatable, requested []int64 // by slot
	// users is the number of localRows that hold the column.
	users int
}

// hold returns the column of a resource. The caller must release it with release.
func (t *nodeTable) hold(name corev1.ResourceName, snapshot *cache.Snapshot) *scalarColumn {
	column, ok := t.scalars[name]
	if !ok {
		column = &scalarColumn{}
		column.grow(snapshot.Slots())
		t.in = fitted(t.in, max(len(t.in), snapshot.Slots()), nil)
		for slot := range column.allocatable {
			if info := snapshot.Info(cache.Slot(slot)); info != nil {
				t.put(column, cache.Slot(slot), info.Allocatable.ScalarResources[name],
					info.Requested.ScalarResources[name])
			}
		}
		t.scalars[name] = column
	}
	column.users++
	return column
}

// release releases a column. It is dropped with its last user.
func (t *nodeTable) release(name corev1.ResourceName) {
	column := t.scalars[name]
	if column.users--; column.users == 0 {
		delete(t.scalars, name)
		*column = scalarColumn{} // in may still list it
	}
	if len(t.scalars) == 0 {
		t.in = nil
	}
}

// readScalars reads the amounts on the node in a slot. The number of columns does not matter: a
// node has amounts of few of the resources.
func (t *nodeTable) readScalars(slot cache.Slot, info *schedframework.NodeInfo) {
	if len(t.scalars) == 0 {
		return
	}
	for _, column := range t.in[slot] {
		if int(slot) < len(column.allocatable) {
			column.allocatable[slot], column.requested[slot] = 0, 0
		}
	}
	t.in[slot] = t.in[slot][:0]
	allocatable, requested := info.Allocatable.ScalarResources, info.Requested.ScalarResources
	for name, amount := range allocatable {
		if column := t.scalars[name]; column != nil {
			t.put(column, slot, amount, requested[name])
		}
	}
	for name, amount := range requested {
		if _, both := allocatable[name]; both {
			continue
		}
		if column := t.scalars[name]; column != nil {
			t.put(column, slot, 0, amount)
		}
	}
}

// put sets the amounts in a slot that has none in the column.
func (t *nodeTable) put(column *scalarColumn, slot cache.Slot, allocatable, requested int64) {
	if allocatable == 0 && requested == 0 {
		return
	}
	column.allocatable[slot], column.requested[slot] = allocatable, requested
	t.in[slot] = append(t.in[slot], column)
}

func (c *scalarColumn) grow(slots int) {
	if len(c.allocatable) >= slots {
		return
	}
	c.allocatable = append(c.allocatable, make([]int64, slots-len(c.allocatable))...)
	c.requested = append(c.requested, make([]int64, slots-len(c.requested))...)
}
