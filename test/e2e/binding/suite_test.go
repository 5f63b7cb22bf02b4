// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"testing"

	"github.com/livesched/livesched/test/e2e/framework"
)

func TestBinding(t *testing.T) { framework.Run(t, "The binding of pods, on a real API server") }
