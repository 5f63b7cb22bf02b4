// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package passon

import (
	"testing"

	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
