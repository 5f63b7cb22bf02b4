// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"k8s.io/utils/clock"
)

// steppedClock is the clock of a replica. Its wall clock can be set, while its monotonic clock goes
// on, as on a machine whose time is corrected.
type steppedClock struct {
	clock.RealClock
	ahead atomic.Int64 // of the wall clock, in seconds
}

func (c *steppedClock) Now() time.Time { return stepWall(time.Now(), c.ahead.Load()) }

// stepWall adds seconds to the wall clock reading of a time, and leaves its monotonic clock reading
// as it is. Package time has no function for that: [time.Time.Add] changes both.
func stepWall(t time.Time, seconds int64) time.Time {
	// The first word of a time with a monotonic clock reading: one bit that is set, 33 bits for the
	// seconds, 30 for the nanoseconds.
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(seconds << 30)
	return t
}

func TestStepWallLeavesTheMonotonicClockReadingAsItIs(t *testing.T) {
	before := time.Now()
	for _, step := range []int64{3600, -3600, 0} {
		after := stepWall(before, step)
		if got := after.Unix() - before.Unix(); got != step {
			t.Errorf("a step of %d moved the wall clock by %d seconds", step, got)
		}
		if got := after.Sub(before); got != 0 {
			t.Errorf("a step of %d moved the monotonic clock by %v", step, got)
		}
	}
}

// clockActs set the clocks of replicas forward and back. The API server's clock is right.
var clockActs = []act{{"step clocks", 4 * time.Second, func(_ context.Context, a *actor) error {
	for _, r := range a.fleet.all() {
		if a.chance(50) {
			r.clock.ahead.Store(one[int64](a, 0, 0, -2, 30, -30, 3600, -3600, 400*24*3600, -400*24*3600))
			a.counts.add("clock steps", 1)
		}
	}
	return nil
}}}
