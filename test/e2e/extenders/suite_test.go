// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extenders

import (
	"testing"

	"github.com/livesched/livesched/test/e2e/framework"
)

func TestExtenders(t *testing.T) { framework.Run(t, "Extenders, on a real API server") }
