// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"
)

func TestHeartbeat(t *testing.T) {
	var h Heartbeat
	if since := h.BusySince(); !since.IsZero() {
		t.Errorf("busy since %v before the first cycle", since)
	}
	began := time.Now()
	h.Begin(began)
	// Equality includes the monotonic clock reading, without which a step of the wall clock would
	// change the duration of the cycle.
	if since := h.BusySince(); since != began {
		t.Errorf("busy since %v, want %v", since, began)
	}
	h.End()
	if since := h.BusySince(); !since.IsZero() {
		t.Errorf("busy since %v after the end of the cycle", since)
	}
}
