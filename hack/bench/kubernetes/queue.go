// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"sync"
)

// queue is a queue without a limit, so that the informer never waits for those who take from it.
type queue[T any] struct {
	mu    sync.Mutex
	items []T           // guarded by mu
	more  chan struct{} // has an element if items may not be empty
}

func newQueue[T any]() *queue[T] { return &queue[T]{more: make(chan struct{}, 1)} }

func (q *queue[T]) add(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	q.wake()
}

func (q *queue[T]) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take returns the oldest item, and waits for one if there is none.
func (q *queue[T]) take(ctx context.Context) (item T, err error) {
	for {
		select {
		case <-ctx.Done():
			return item, context.Cause(ctx)
		case <-q.more:
		}
		q.mu.Lock()
		if len(q.items) == 0 {
			q.mu.Unlock()
			continue
		}
		item, q.items = q.items[0], q.items[1:]
		left := len(q.items)
		q.mu.Unlock()
		if left > 0 {
			q.wake()
		}
		return item, nil
	}
}
