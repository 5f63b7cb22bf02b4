// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"testing"

	"github.com/livesched/livesched/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
