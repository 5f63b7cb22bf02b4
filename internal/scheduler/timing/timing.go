// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timing finds what takes longest in a scheduling cycle, for the log line about a slow one.
//
//	loop ------- Attach ----> a context, which plugins and extenders get
//	algorithm -- Start, End   the fast path; Filter, over all nodes
//	framework -- Start, End   Score, over all nodes; each plugin that is called once for a pod
//	          -- AddCall      a plugin on a node, only in the cycles that metrics sample
//	extender --- Add          a call of a verb
//	shadow ----- Start, End   all shadows of the profile
//	loop ------- Longest
//
// It costs a cycle no allocation, and the clock is not read for each node. A step costs two looks
// at the monotonic clock, which cost half as much as time.Now, and seldom a lock.
package timing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Steps that are no extension points.
const (
	Snapshot = "UpdateSnapshot"
	FastPath = "FastPath"
	Extender = "Extender"
	Shadows  = "Shadows"
)

// Part is a part of a scheduling cycle.
type Part struct {
	// Step is an extension point or one of the constants above.
	Step string
	// Plugin is what took the time there. It is empty if no single plugin did, or if that was not
	// measured.
	Plugin string
	// Extender and Verb are set for a call of an extender.
	Extender, Verb string
}

// Cycle measures one scheduling cycle. Its zero value is ready for Attach. A nil Cycle, which From
// returns outside of scheduling cycles, measures nothing.
//
// It is safe for concurrent use after Attach: plugins run on several nodes at the same time, and
// may go on after the cycle has ended.
type Cycle struct {
	context.Context           // embedded, to be a context without an allocation; set by Attach, and never again
	began           time.Time // set by Attach, and never again

	// inner is the sum of all durations until now, in nanoseconds. A step that contains others is
	// not charged for them.
	inner atomic.Int64
	// duration is how long the longest part took, in nanoseconds. It is written under mu.
	duration atomic.Int64

	mu sync.Mutex // guards the fields below
	// longest is what took longest until now.
	longest Part
	// calls are the durations of plugins on nodes since the last step over all nodes ended.
	calls map[string]time.Duration
}

type cycleKey struct{}

// Attach returns a context for the cycle, from which From returns c. It must be called once.
func (c *Cycle) Attach(ctx context.Context) context.Context {
	c.Context, c.began = ctx, time.Now()
	return c
}

// Value implements context.Context.
func (c *Cycle) Value(key any) any {
	if key == (cycleKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// From returns the cycle that ctx belongs to, or nil.
func From(ctx context.Context) *Cycle {
	c, _ := ctx.Value(cycleKey{}).(*Cycle)
	return c
}

// Detach returns a context that belongs to no cycle, for what is measured as one step.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(ctx, cycleKey{}, (*Cycle)(nil))
}

// Span is a step that is under way.
type Span struct {
	cycle *Cycle
	start time.Duration // since the cycle began
	inner time.Duration
}

// Start begins a step. Other steps may begin and end within it.
func (c *Cycle) Start() Span {
	if c == nil {
		return Span{}
	}
	return Span{cycle: c, start: time.Since(c.began), inner: time.Duration(c.inner.Load())}
}

// End ends the step of a plugin. A step over all nodes has no plugin: it is the one whose calls
// took at least half as long as the step.
func (s Span) End(step, plugin string) {
	c := s.cycle
	if c == nil {
		return
	}
	took := time.Since(c.began) - s.start - (time.Duration(c.inner.Load()) - s.inner)
	if plugin == "" {
		plugin = c.takeSlowestCalls(took / 2)
	}
	c.Add(Part{Step: step, Plugin: plugin}, took)
}

// Add adds a part that contains no others. Such parts may overlap.
func (c *Cycle) Add(part Part, took time.Duration) {
	if c == nil {
		return
	}
	c.inner.Add(int64(max(took, 0)))
	if int64(took) <= c.duration.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if int64(took) > c.duration.Load() {
		c.longest = part
		c.duration.Store(int64(took))
	}
}

// AddCall adds the call of a plugin on a node, which belongs to a step over all nodes.
func (c *Cycle) AddCall(plugin string, took time.Duration) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]time.Duration{}
	}
	c.calls[plugin] += took
}

// takeSlowestCalls forgets the calls, and returns the plugin whose calls took longest, if they took
// longer than atLeast.
func (c *Cycle) takeSlowestCalls(atLeast time.Duration) (plugin string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, took := range c.calls {
		if took > atLeast {
			plugin, atLeast = name, took
		}
	}
	clear(c.calls)
	return plugin
}

// Longest returns what took longest, and how long it took.
func (c *Cycle) Longest() (Part, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longest, time.Duration(c.duration.Load())
}
