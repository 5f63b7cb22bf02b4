// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/heap"
)

// order makes a workqueue give out objects by descending priority, and objects of one priority in
// the order in which they were added.
//
// The workqueue calls Touch, Push, Len and Pop, under its lock. prefer may be called by any
// goroutine.
type order struct {
	mu sync.Mutex // guards priorities
	// priorities holds the priorities of objects until they are given out. The others have 0.
	priorities map[types.UID]int

	places *heap.Heap[place]
	added  int
}

var _ workqueue.Queue[types.UID] = &order{}

// place is the place of an object in the queue.
type place struct {
	uid             types.UID
	priority, added int
}

// Size and Type implement heap.Item, for metrics that this heap does not have.
func (place) Size() int               { return 1 }
func (place) Type() fwk.EntityKeyType { return "" }

func newOrder() *order {
	return &order{priorities: map[types.UID]int{}, places: heap.New(
		func(p place) string { return string(p.uid) },
		func(a, b place) bool {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.added, b.added)) < 0
		},
	)}
}

// prefer gives an object a priority. It takes effect when the object is added next.
func (o *order) prefer(uid types.UID, priority int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.priorities[uid] = priority
}

// Push queues an object.
func (o *order) Push(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.added++
	o.places.AddOrUpdate(place{uid: uid, priority: o.priorities[uid], added: o.added})
}

// Touch moves an object that is queued, if it has a higher priority now.
func (o *order) Touch(uid types.UID) {
	queued, _ := o.places.GetByKey(string(uid))
	o.mu.Lock()
	higher := o.priorities[uid] > queued.priority
	o.mu.Unlock()
	if higher {
		o.Push(uid)
	}
}

// Len returns the number of queued objects.
func (o *order) Len() int { return o.places.Len() }

// Pop returns the first object.
func (o *order) Pop() types.UID {
	first, _ := o.places.Pop() // the workqueue calls it only if there is one
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.priorities, first.uid)
	return first.uid
}
