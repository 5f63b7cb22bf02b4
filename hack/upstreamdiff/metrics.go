// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"slices"
	"strings"
)

// metrics returns the metrics that pkg/scheduler declares, with labels and stability.
func metrics(r *release) ([]string, error) {
	var lines []string
	err := walkGo(r.kubernetes, "pkg/scheduler", false, func(_ string, file *ast.File) error {
		ast.Inspect(file, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && len(call.Args) > 0 {
				if line, ok := metricOf(call); ok {
					lines = append(lines, line)
				}
			}
			return true
		})
		return nil
	})
	slices.Sort(lines)
	return lines, err
}

// metricOf describes the metric that a call makes, such as metrics.NewCounterVec.
func metricOf(call *ast.CallExpr) (string, bool) {
	pointer, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return "", false
	}
	options, ok := pointer.X.(*ast.CompositeLit)
	if !ok || !strings.HasSuffix(source(options.Type), "Opts") {
		return "", false
	}
	name, ok := text(fieldOf(options, "Name"))
	if !ok {
		return "", false
	}
	line := name
	if subsystem := fieldOf(options, "Subsystem"); subsystem != nil {
		line = source(subsystem) + "/" + line
	}
	if len(call.Args) > 1 {
		line += " " + strings.TrimPrefix(source(call.Args[1]), "[]string")
	}
	if stability := fieldOf(options, "StabilityLevel"); stability != nil {
		line += " " + strings.TrimPrefix(source(stability), "metrics.")
	}
	return line, true
}
