// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"testing"

	"github.com/livesched/livesched/test/e2e/framework"
)

func TestProfiles(t *testing.T) { framework.Run(t, "Profiles and their reload, on a real API server") }
