// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-livesched is a plugin of kubectl, `kubectl livesched`, for the profiles and
// policies of livesched.
package main

import (
	"os"

	"github.com/livesched/livesched/cmd/kubectl-livesched/app"
)

func main() { os.Exit(app.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, nil)) }
