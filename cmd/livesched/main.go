// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command livesched is a Kubernetes scheduler whose profiles are custom resources.
package main

import (
	"os"

	"github.com/livesched/livesched/cmd/livesched/app"
)

func main() { os.Exit(app.Main(os.Args[1:], nil)) }
