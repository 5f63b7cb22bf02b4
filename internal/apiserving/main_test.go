// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"testing"

	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
