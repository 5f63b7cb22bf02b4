// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// lineWidth is the width of the terminal of tests of what commands print.
const lineWidth = 100

func testTerminal(w io.Writer) io.Writer { return terminal.Plain(w, lineWidth) }
