// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"
)

// gate stands before an event handler. client-go goes on delivering what it had taken up when a handler is removed;
// with the gate closed nothing of it reaches the handler, but for a call that had begun before.
type gate struct {
	handler toolscache.ResourceEventHandler
	closed  atomic.Bool
}

var _ toolscache.ResourceEventHandler = (*gate)(nil)

func (g *gate) OnAdd(obj any, isInInitialList bool) {
	if !g.closed.Load() {
		g.handler.OnAdd(obj, isInInitialList)
	}
}

func (g *gate) OnUpdate(oldObj, newObj any) {
	if !g.closed.Load() {
		g.handler.OnUpdate(oldObj, newObj)
	}
}

func (g *gate) OnDelete(obj any) {
	if !g.closed.Load() {
		g.handler.OnDelete(obj)
	}
}
