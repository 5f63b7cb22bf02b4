// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(time.Minute)
	leaks.Main(m)
}
