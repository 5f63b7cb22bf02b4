// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/livesched/livesched/test/e2e/framework"
)

func TestPlacement(t *testing.T) { framework.Run(t, "The placement of pods, on a real API server") }
