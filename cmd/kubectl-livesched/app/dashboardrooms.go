// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

const (
	// roomsFor is how long the room of nodes is kept: two parts of a page need it at a time.
	roomsFor = 3 * time.Second
	// mostRooms is for how many pods it is kept, the latest: pages that are open at the same time
	// ask for the refusals of different pods. That of 5,000 nodes takes some MiB.
	mostRooms = 4
)

// keptRooms is the room of nodes that was read lately, by the pod whose refusals it has; the latest
// is the last one.
type keptRooms []keptRoom

type keptRoom struct {
	pod  types.NamespacedName
	list *v1alpha1.NodeAllocationList
	read time.Time
}

// get returns the room for a pod, nil if there is none that is new enough. It drops what is older.
func (r *keptRooms) get(pod types.NamespacedName, now time.Time) *v1alpha1.NodeAllocationList {
	*r = slices.DeleteFunc(*r, func(k keptRoom) bool { return now.Sub(k.read) >= roomsFor })
	for i := range *r {
		if (*r)[i].pod == pod {
			return (*r)[i].list
		}
	}
	return nil
}

// keep keeps the room for a pod in place of the one before, or of the oldest one.
func (r *keptRooms) keep(pod types.NamespacedName, list *v1alpha1.NodeAllocationList, now time.Time) {
	*r = slices.DeleteFunc(*r, func(k keptRoom) bool { return k.pod == pod })
	if len(*r) >= mostRooms {
		*r = slices.Delete(*r, 0, len(*r)-mostRooms+1)
	}
	*r = append(*r, keptRoom{pod, list, now})
}
