// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"
)

func TestTheProcessEndsWithinTheTimeThatItPromises(t *testing.T) {
	const promised = 10 * time.Second
	if shutdownTimeout+time.Second > exitTimeout || exitTimeout+time.Second > promised || idleTimeout > exitTimeout {
		t.Errorf("the manager has %v to end, the process %v, and %v if nothing is under way; promised are %v", shutdownTimeout, exitTimeout, idleTimeout, promised)
	}
}
