// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"testing"

	"github.com/livesched/livesched/test/e2e/framework"
)

func TestPreemption(t *testing.T) { framework.Run(t, "Preemption, on a real API server") }
