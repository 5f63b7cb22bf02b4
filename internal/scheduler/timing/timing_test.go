// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package timing

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// cycle runs a cycle with a fake clock and returns what took longest.
func cycle(t *testing.T, run func(*Cycle)) (part Part, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var c Cycle
		run(From(context.WithoutCancel(c.Attach(t.Context()))))
		part, took = c.Longest()
	})
	return part, took
}

func TestTheLongestPartIsNamed(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		run  func(*Cycle)
		want Part
		took time.Duration
	}{
		"nothing": {run: func(*Cycle) {}},
		"one plugin of several": {
			run: func(c *Cycle) {
				step(c, 10*ms, "PreFilter", "A")
				step(c, 30*ms, "PreFilter", "B")
				step(c, 20*ms, "Reserve", "C")
			},
			want: Part{Step: "PreFilter", Plugin: "B"}, took: 30 * ms,
		},
		"a step is not charged for what it contains": {
			run: func(c *Cycle) {
				s := c.Start()
				step(c, 20*ms, "PreFilter", "A")
				time.Sleep(10 * ms)
				s.End(FastPath, "")
			},
			want: Part{Step: "PreFilter", Plugin: "A"}, took: 20 * ms,
		},
		"extenders that are called at the same time": {
			run: func(c *Cycle) {
				var wg sync.WaitGroup
				for name, took := range map[string]time.Duration{"slow": 40 * ms, "quick": 10 * ms} {
					wg.Go(func() {
						time.Sleep(took)
						c.Add(Part{Step: Extender, Extender: name, Verb: "prioritize"}, took)
					})
				}
				wg.Wait()
			},
			want: Part{Step: Extender, Extender: "slow", Verb: "prioritize"}, took: 40 * ms,
		},
		"a plugin that is slow on each node": {
			run: func(c *Cycle) {
				s := c.Start()
				time.Sleep(20 * ms)
				c.AddCall("A", 4*ms)
				c.AddCall("B", 9*ms)
				c.AddCall("B", 9*ms)
				s.End("Filter", "")
			},
			want: Part{Step: "Filter", Plugin: "B"}, took: 20 * ms,
		},
		"no single plugin": {
			run: func(c *Cycle) {
				s := c.Start()
				time.Sleep(20 * ms)
				c.AddCall("A", 7*ms)
				c.AddCall("B", 7*ms)
				s.End("Filter", "")
			},
			want: Part{Step: "Filter"}, took: 20 * ms,
		},
		"calls of an earlier step": {
			run: func(c *Cycle) {
				s := c.Start()
				c.AddCall("A", 90*ms)
				s.End("Filter", "")
				s = c.Start()
				time.Sleep(20 * ms)
				s.End("Score", "")
			},
			want: Part{Step: "Score"}, took: 20 * ms,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if part, took := cycle(t, test.run); part != test.want || took != test.took {
				t.Errorf("%+v took %v, want %+v, %v", part, took, test.want, test.took)
			}
		})
	}
}

// step is a step that takes some time.
func step(c *Cycle, took time.Duration, point, plugin string) {
	s := c.Start()
	time.Sleep(took)
	s.End(point, plugin)
}

func TestNothingIsMeasuredOutsideOfCycles(t *testing.T) {
	c := From(t.Context())
	c.Start().End("Filter", "A")
	c.Add(Part{Step: Extender}, time.Second)
	c.AddCall("A", time.Second)
	if c != nil {
		t.Errorf("From returns %v", c)
	}
}

func TestACycleAllocatesNothing(t *testing.T) {
	cycles := make([]Cycle, 101) // AllocsPerRun runs once more
	next := 0
	allocated := testing.AllocsPerRun(100, func() {
		c := &cycles[next]
		next++
		ctx := c.Attach(t.Context())
		outer := From(ctx).Start()
		From(ctx).Start().End("Reserve", "A")
		outer.End(FastPath, "")
		From(ctx).Add(Part{Step: Extender, Extender: "e"}, time.Millisecond)
		c.Longest()
	})
	if allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
}

func TestTheContextOfACycleEndsWithItsParent(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	var c Cycle
	child, cancelChild := context.WithCancel(c.Attach(parent))
	defer cancelChild()
	cancel()
	if <-child.Done(); From(child) != &c {
		t.Error("a context that was made of it does not know the cycle")
	}
}
