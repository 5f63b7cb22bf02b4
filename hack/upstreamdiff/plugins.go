// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"slices"
	"strings"
)

// defaultPlugins returns the default plugins in their order, and then how feature gates change
// them.
func defaultPlugins(r *release) (lines []string, err error) {
	file, err := parseFile(r.kubernetes, "pkg/scheduler/apis/config/v1/default_plugins.go")
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CompositeLit:
			if name := fieldOf(node, "Name"); name != nil {
				line := strings.TrimPrefix(source(name), "names.")
				if weight := fieldOf(node, "Weight"); weight != nil {
					line += " with weight " + strings.TrimPrefix(source(weight), "ptr.To[int32]")
				}
				lines = append(lines, line)
			}
		case *ast.IfStmt:
			if strings.Contains(source(node.Cond), "FeatureGate.Enabled(") {
				lines = append(lines, "if "+source(node.Cond))
			}
		}
		return true
	})
	return lines, nil
}

// registeredPlugins returns the constructors of the in-tree plugins.
func registeredPlugins(r *release) (lines []string, err error) {
	file, err := parseFile(r.kubernetes, "pkg/scheduler/framework/plugins/registry.go")
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if entry, ok := node.(*ast.KeyValueExpr); ok && strings.HasSuffix(source(entry.Key), ".Name") {
			lines = append(lines, source(entry))
			return false
		}
		return true
	})
	slices.Sort(lines)
	return lines, nil
}
