// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// TestScalarColumnsHaveTheAmountsOfTheNodes holds and releases columns while nodes and pods change.
func TestScalarColumnsHaveTheAmountsOfTheNodes(t *testing.T) {
	for seed := range uint64(10) {
		l := newLedger(t, seed)
		names := []corev1.ResourceName{gpu, licence, hugepages, "example.com/on-no-node"}
		held, compared := map[corev1.ResourceName]int{}, 0
		for range 300 {
			for range l.IntN(4) {
				l.disturb()
			}
			l.must(l.cache.UpdateSnapshot(logr.Discard(), l.snapshot))
			switch name := oneOf(l, names...); {
			case held[name] > 0 && l.chance(40):
				l.table.release(name)
				held[name]--
			case l.chance(50):
				l.table.hold(name, l.snapshot)
				held[name]++
			}
			l.table.sync(l.snapshot)
			for name, users := range held {
				if users > 0 {
					compared += l.compareColumn(name)
				}
			}
		}
		if compared == 0 {
			t.Error("no node has an amount")
		}
	}
}

// compareColumn compares a column with the nodes, and returns the number of those with an amount.
func (l *ledger) compareColumn(name corev1.ResourceName) (some int) {
	l.t.Helper()
	column := l.table.scalars[name]
	for slot := range l.snapshot.Slots() {
		info := l.snapshot.Info(cache.Slot(slot))
		if info == nil {
			continue
		}
		allocatable, requested := info.Allocatable.ScalarResources[name], info.Requested.ScalarResources[name]
		if column.allocatable[slot] != allocatable || column.requested[slot] != requested {
			l.t.Fatalf("%s on %s: %d of %d are requested, want %d of %d", name, info.Node().Name,
				column.requested[slot], column.allocatable[slot], requested, allocatable)
		}
		if allocatable+requested > 0 {
			some++
		}
	}
	return some
}

// BenchmarkReadNode measures how long it takes to read a node after a change, by the number of
// resources that classes request.
func BenchmarkReadNode(b *testing.B) {
	for _, columns := range []int{0, 10, 1000} {
		b.Run(fmt.Sprint(columns), func(b *testing.B) {
			l := newLedger(nil, 1)
			if err := l.cache.UpdateSnapshot(logr.Discard(), l.snapshot); err != nil {
				b.Fatal(err)
			}
			for i := range columns {
				l.table.hold(corev1.ResourceName(fmt.Sprint("example.com/", i)), l.snapshot)
			}
			l.table.hold(gpu, l.snapshot)
			l.table.sync(l.snapshot)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.table.read(l.snapshot, cache.Slot(i%l.snapshot.Slots()))
			}
		})
	}
}
