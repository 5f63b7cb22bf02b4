// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"container/heap"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
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

	// places holds the places of the queued objects. heap has these, and former ones, which count
	// no more.
	places map[types.UID]place
	heap   places
	added  int
}

var _ workqueue.Queue[types.UID] = &order{}

// place is the place of an object in the queue.
type place struct {
	uid             types.UID
	priority, added int
}

func newOrder() *order {
	return &order{priorities: map[types.UID]int{}, places: map[types.UID]place{}}
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
	p := place{uid: uid, priority: o.priorities[uid], added: o.added}
	o.places[uid] = p
	heap.Push(&o.heap, p)
}

// Touch moves an object that is queued, if it has a higher priority now.
func (o *order) Touch(uid types.UID) {
	o.mu.Lock()
	higher := o.priorities[uid] > o.places[uid].priority
	o.mu.Unlock()
	if higher {
		o.Push(uid)
	}
}

// Len returns the number of queued objects.
func (o *order) Len() int { return len(o.places) }

// Pop returns the first object.
func (o *order) Pop() types.UID {
	for {
		p := heap.Pop(&o.heap).(place)
		if o.places[p.uid] != p {
			continue
		}
		delete(o.places, p.uid)
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.priorities, p.uid)
		return p.uid
	}
}

// places implements heap.Interface.
type places []place

func (p places) Len() int { return len(p) }

func (p places) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(p[j].priority, p[i].priority), cmp.Compare(p[i].added, p[j].added)) < 0
}

func (p places) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

func (p *places) Push(x any) { *p = append(*p, x.(place)) }

func (p *places) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}
