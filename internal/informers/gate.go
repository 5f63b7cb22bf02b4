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
	// Owner is the owner of the handler: see [Scope.SetOwner].
	Owner string
	// Kind is the kind of the objects whose events the handler receives.
	Kind schema.GroupVersionKind
	// Value is the value of the panic.
	Value any
	// Stack is the stack of a handler's first panic. It is nil for later ones, which are most
	// likely the same.
	Stack []byte
}

// gate wraps an event handler. When a handler is removed, client-go still delivers the events that
// it has queued. A closed gate drops them; only a call that began before still runs.
//
// client-go ends the process when a handler panics. The gate of a foreign handler, which has a
// report, recovers from the panic: the handler misses that event and receives the next.
type gate struct {
	handler toolscache.ResourceEventHandler
	closed  atomic.Bool

	// report is nil for livesched's own handlers, whose panics end the process.
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

// contain recovers from the panic of a foreign handler and reports it. Defer it.
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
