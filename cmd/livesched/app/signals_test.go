// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"
)

func TestTheProcessEndsWithinTheDocumentedTime(t *testing.T) {
	const documented = 10 * time.Second
	if shutdownTimeout+time.Second > exitTimeout || exitTimeout+time.Second > documented || idleTimeout > exitTimeout {
		t.Errorf("the manager stops within %v and the process within %v, or %v if it has nothing to complete; "+
			"documented are %v", shutdownTimeout, exitTimeout, idleTimeout, documented)
	}
}
