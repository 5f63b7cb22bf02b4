// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// clusterEvents returns the resources and actions of k8s.io/kube-scheduler, the variables and
// constants of pkg/scheduler/framework/events.go, and the events that each plugin asks for.
func clusterEvents(r *release) (lines []string, err error) {
	types, err := parseFile(r.modules["kube-scheduler"], "framework/types.go")
	if err != nil {
		return nil, err
	}
	events, err := parseFile(r.kubernetes, "pkg/scheduler/framework/events.go")
	if err != nil {
		return nil, err
	}
	for _, file := range []*ast.File{types, events} {
		for _, decl := range file.Decls {
			if general, ok := decl.(*ast.GenDecl); ok && (file == events || general.Tok == token.CONST) {
				lines = append(lines, values(general)...)
			}
		}
	}
	err = walkGo(r.kubernetes, "pkg/scheduler/framework/plugins", false, func(name string, file *ast.File) error {
		plugin := path.Base(path.Dir(name))
		ast.Inspect(file, func(node ast.Node) bool {
			if event, ok := node.(*ast.CompositeLit); ok {
				resource, action := fieldOf(event, "Resource"), fieldOf(event, "ActionType")
				if resource != nil && action != nil {
					lines = append(lines, plugin+": "+eventName(resource)+" "+eventName(action))
				}
			}
			return true
		})
		return nil
	})
	slices.Sort(lines)
	return slices.Compact(lines), err
}

// values returns the names of a declaration with their types and values. In a list with iota, the
// position of a name is no change, so such values are only names.
func values(decl *ast.GenDecl) (lines []string) {
	for _, spec := range decl.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		value.Doc, value.Comment = nil, nil
		line := source(value)
		if before, _, ok := strings.Cut(line, " = 1 << iota"); ok {
			line = before
		}
		lines = append(lines, line)
	}
	return lines
}

func eventName(expr ast.Expr) string { return strings.ReplaceAll(source(expr), "fwk.", "") }
