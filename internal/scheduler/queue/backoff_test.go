// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strings"
	"testing"
	"time"
)

func TestWindowsBeginWithTheSecondsOfTheWallClock(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	w := newWindows(at)
	for _, after := range []time.Duration{-90 * time.Minute, -700 * time.Millisecond, -600 * time.Millisecond, 0,
		399 * time.Millisecond, 400 * time.Millisecond, time.Hour} {
		t.Run(after.String(), func(t *testing.T) {
			now := at.Add(after)
			if got, want := w.begin(now), now.Truncate(time.Second); !got.Equal(want) {
				t.Errorf("the window of %v begins at %v, want %v", now, got, want)
			}
		})
	}
}

// TestAStepOfTheWallClockDoesNotMoveWindows relies on package time, which promises that operations
// on times with monotonic clock readings ignore the wall clock.
func TestAStepOfTheWallClockDoesNotMoveWindows(t *testing.T) {
	now := time.Now()
	w := newWindows(now)
	for name, at := range map[string]time.Time{"origin": w.origin, "begin": w.begin(now.Add(time.Minute))} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s has no monotonic clock reading: %v", name, at)
		}
	}
}
