// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"os"
	"testing"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/e2e/framework"
)

// asCommand is an environment variable that makes the test binary the livesched command.
const asCommand = "LIVESCHED_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(app.Main(os.Args[1:], nil))
	}
	os.Exit(m.Run())
}

func TestExtensions(t *testing.T) {
	framework.Run(t, "Extenders and out-of-tree plugins, on a real API server")
}
