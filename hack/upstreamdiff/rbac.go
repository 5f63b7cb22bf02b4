// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"io/fs"
	"slices"
	"strings"
)

// rbacRules returns the rules of the ClusterRole of kube-scheduler, each after the conditions under
// which it has the rule.
func rbacRules(r *release) (lines []string, err error) {
	const name = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go"
	file, err := parseFile(r.kubernetes, name)
	if err != nil {
		return nil, err
	}
	var collect func(node ast.Node, conditions string)
	collect = func(node ast.Node, conditions string) {
		ast.Inspect(node, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.IfStmt:
				gate := strings.TrimPrefix(source(node.Cond), "utilfeature.DefaultFeatureGate.")
				collect(node.Body, conditions+"if "+gate+": ")
				if node.Else != nil {
					collect(node.Else, conditions+"if not "+gate+": ")
				}
				return false
			case *ast.AssignStmt:
				for _, rule := range assignedRules(node) {
					lines = append(lines, conditions+strings.TrimPrefix(source(rule), "rbacv1helpers."))
				}
			}
			return true
		})
	}
	collect(file, "")
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: no assignment to kubeSchedulerRules: %w", name, fs.ErrNotExist)
	}
	slices.Sort(lines)
	return lines, nil
}

// assignedRules returns the rules that a statement gives kube-scheduler.
func assignedRules(assign *ast.AssignStmt) []ast.Expr {
	if source(assign.Lhs[0]) != "kubeSchedulerRules" {
		return nil
	}
	switch value := assign.Rhs[0].(type) {
	case *ast.CompositeLit:
		return value.Elts
	case *ast.CallExpr:
		return value.Args[1:] // of append
	}
	return nil
}
