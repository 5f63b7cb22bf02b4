// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import (
	"testing"
	"time"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

func TestSamples(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	count := func(s *sampler, n int, every time.Duration, class func(i int) cache.ClassID) (taken int) {
		for i := range n {
			if s.take(class(i), start.Add(time.Duration(i)*every)) {
				taken++
			}
		}
		return taken
	}
	one := func(int) cache.ClassID { return 1 }
	if got := count(&sampler{}, 1000, time.Millisecond, one); got != 10 {
		t.Errorf("of a class %d decisions of a second are sampled, want 10", got)
	}
	if got := count(&sampler{}, 3, time.Minute, one); got != 3 {
		t.Errorf("%d of 3 decisions in 3 minutes are sampled", got)
	}
	few := func(i int) cache.ClassID { return cache.ClassID(i%5 + 1) }
	if got := count(&sampler{}, 90, time.Millisecond, few); got != 5 {
		t.Errorf("%d decisions are sampled, want the first of each of 5 classes", got)
	}
	all := func(i int) cache.ClassID { return cache.ClassID(i + 1) }
	if got := count(&sampler{}, 1000, time.Millisecond, all); got != 20 {
		t.Errorf("of 1000 classes in a second, %d decisions are sampled, want 20", got)
	}
	log := New(1)
	d := Decision{Class: 1, Time: start}
	log.Wants(&d)
	log.SetTop(log.Append(&d), nil, start, 10*time.Millisecond)
	d.Class, d.Time = 2, start.Add(999*time.Millisecond)
	if log.Wants(&d) {
		t.Error("samples may take more than a hundredth of the time")
	}
	d.Time = start.Add(time.Second)
	if !log.Wants(&d) {
		t.Error("after a sample that took long, no other is taken")
	}
	s := &sampler{}
	s.take(1, start)
	if !s.take(1, start.Add(-time.Hour)) {
		t.Error("after the clock was set back, no decision is sampled")
	}
}
