// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"testing"

	"github.com/livesched/livesched/test/e2e/framework"
)

func TestPlugins(t *testing.T) { framework.Run(t, "Out-of-tree plugins, on a real API server") }
