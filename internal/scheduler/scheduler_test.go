// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"testing"
)

func TestTheLoopEndsIfItsLeaderIsTooLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Config{}).Run(ctx); err != nil { // it never became ready
		t.Error(err)
	}
}
