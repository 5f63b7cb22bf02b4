// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// reporters are the functions whose texts reach conditions and Events of pods.
	reporters = regexp.MustCompile(`\b(NewStatus|AsStatus|Eventf|Event)$`)
	// reasons are the names of constants and fields with such texts.
	reasons = regexp.MustCompile(`(?i)(reason|message|msg)`)
)

// messages returns the texts of the scheduler that users see on their pods, after their package.
func messages(r *release) (lines []string, err error) {
	err = walkGo(r.kubernetes, "pkg/scheduler", false, func(name string, file *ast.File) error {
		topic := strings.TrimPrefix(path.Dir(name), "pkg/")
		ast.Inspect(file, func(node ast.Node) bool {
			for _, text := range messagesOf(node) {
				lines = append(lines, topic+" "+strconv.Quote(text))
			}
			return true
		})
		return nil
	})
	slices.Sort(lines)
	return slices.Compact(lines), err
}

// messagesOf returns the texts of a call, declaration or field.
func messagesOf(node ast.Node) []string {
	switch node := node.(type) {
	case *ast.CallExpr:
		if reporters.MatchString(source(node.Fun)) {
			return sentences(node)
		}
	case *ast.ValueSpec:
		if reasons.MatchString(node.Names[0].Name) {
			return sentences(node)
		}
	case *ast.AssignStmt:
		if reasons.MatchString(source(node.Lhs[0])) {
			return sentences(node)
		}
	case *ast.KeyValueExpr:
		if reasons.MatchString(source(node.Key)) {
			return sentences(node)
		}
	}
	return nil
}

// sentences returns the literals in a node that have more than one word.
func sentences(node ast.Node) (all []string) {
	ast.Inspect(node, func(node ast.Node) bool {
		if expr, ok := node.(ast.Expr); ok {
			if value, ok := text(expr); ok && strings.Contains(strings.TrimSpace(value), " ") {
				all = append(all, value)
			}
		}
		return true
	})
	return all
}
