// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package main writes the Grafana dashboards of config/grafana. Its tests test them and the alerts
// of config/prometheus: with the query engine of Prometheus, and against the list of metrics that
// livesched serves.
//
// It is a module of its own so that livesched does not depend on Prometheus. It takes the packages
// that promtool evaluates rules with, and not promtool itself, which would compile the clients of
// every cloud that Prometheus discovers targets in.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const grafana = "../../../config/grafana"

func main() {
	for _, d := range dashboards {
		content, err := d.encode()
		if err == nil {
			err = os.WriteFile(filepath.Join(grafana, d.file), content, 0o644) //nolint:gosec // public
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
