// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

func TestTheRoomOfNodesIsKeptForAFewPods(t *testing.T) {
	var rooms keptRooms
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "ml", Name: strconv.Itoa(i)} }
	lists := make([]v1alpha1.NodeAllocationList, mostRooms+1)
	for i := range lists {
		rooms.keep(pod(i), &lists[i], now)
	}
	if rooms.get(pod(0), now) != nil {
		t.Error("the oldest is kept beyond the limit")
	}
	for i := 1; i <= mostRooms; i++ {
		if rooms.get(pod(i), now) != &lists[i] {
			t.Errorf("that of pod %d is not kept", i)
		}
	}
	later := now.Add(roomsFor / 2)
	rooms.keep(pod(1), &lists[0], later)
	if len(rooms) != mostRooms || rooms.get(pod(1), later) != &lists[0] {
		t.Errorf("%d are kept, and the newer one for a pod does not replace the older one", len(rooms))
	}
	if rooms.get(pod(2), now.Add(roomsFor)) != nil || rooms.get(pod(1), now.Add(roomsFor)) != &lists[0] {
		t.Error("an old one is kept, or a new one is not")
	}
	if rooms.get(pod(1), later.Add(roomsFor)) != nil || len(rooms) != 0 {
		t.Errorf("%d are left after their time", len(rooms))
	}
}
