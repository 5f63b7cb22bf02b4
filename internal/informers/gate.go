// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"runtime/debug"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

// HandlerPanic is the panic of an event handler.
type HandlerPanic struct {
	// Owner is who had added the handler: what was set by [Scope.SetOwner] at that time.
	Owner string
	// Kind of the objects that the handler is told of.
	Kind schema.GroupVersionKind
	// Value is what the handler panicked with.
	Value any
	// Stack is that of the first panic of a handler, and nil for later ones, which are likely to be
	// the same.
	Stack []byte
}

// gate stands before an event handler. client-go goes on delivering what it had taken up when a
// handler is removed; with the gate closed nothing of it reaches the handler, but for a call that
// had begun before.
//
// client-go ends the process when a handler panics. The gate of a foreign handler, one with a
// report, does not let a panic through: the handler misses that event and is told of the next.
type gate struct {
	handler toolscache.ResourceEventHandler
	closed  atomic.Bool

	// report is nil for handlers that may end the process.
	report   func(HandlerPanic)
	owner    string
	kind     schema.GroupVersionKind
	panicked atomic.Bool
}

var _ toolscache.ResourceEventHandler = (*gate)(nil)

func (g *gate) OnAdd(obj any, isInInitialList bool) {
	if !g.closed.Load() {
		defer g.contain()
		g.handler.OnAdd(obj, isInInitialList)
	}
}

func (g *gate) OnUpdate(oldObj, newObj any) {
	if !g.closed.Load() {
		defer g.contain()
		g.handler.OnUpdate(oldObj, newObj)
	}
}

func (g *gate) OnDelete(obj any) {
	if !g.closed.Load() {
		defer g.contain()
		g.handler.OnDelete(obj)
	}
}

// contain is to be deferred.
func (g *gate) contain() {
	if g.report == nil {
		return
	}
	value := recover()
	if value == nil {
		return
	}
	p := HandlerPanic{Owner: g.owner, Kind: g.kind, Value: value}
	if g.panicked.CompareAndSwap(false, true) {
		p.Stack = debug.Stack()
	}
	g.report(p)
}
