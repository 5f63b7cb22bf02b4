// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"testing"

	"github.com/livesched/livesched/test/e2e/framework"
)

func TestQueueing(t *testing.T) {
	framework.Run(t, "The scheduling queue, on a real API server")
}
