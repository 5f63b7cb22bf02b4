// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"slices"
	"strconv"
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
					line += " with " + source(weight)
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

// featureGates returns the gates that pkg/scheduler mentions, with their stage and default in this
// version.
func featureGates(r *release) ([]string, error) {
	mentioned := map[string]bool{}
	err := walkGo(r.kubernetes, "pkg/scheduler", false, func(_ string, file *ast.File) error {
		ast.Inspect(file, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && source(selector.X) == "features" {
				mentioned[selector.Sel.Name] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	states, err := gateStates(r)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(mentioned)) {
		if state, ok := states[name]; ok {
			lines = append(lines, name+" "+state)
		}
	}
	return lines, nil
}

// gateStates returns the stage and default of each gate.
func gateStates(r *release) (map[string]string, error) {
	file, err := parseFile(r.kubernetes, "pkg/features/kube_features.go")
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "defaultVersionedKubernetesFeatureGates" {
			return true
		}
		for _, element := range spec.Values[0].(*ast.CompositeLit).Elts {
			gate := element.(*ast.KeyValueExpr)
			if versions, ok := gate.Value.(*ast.CompositeLit); ok {
				if state := stateIn(versions, r.minor); state != "" {
					states[source(gate.Key)] = state
				}
			}
		}
		return false
	})
	return states, nil
}

// stateIn returns the state of a gate in a minor version: that of the latest of its versions that
// is not later.
func stateIn(versions *ast.CompositeLit, minor string) (state string) {
	for _, element := range versions.Elts {
		spec, ok := element.(*ast.CompositeLit)
		if !ok {
			continue
		}
		call, ok := fieldOf(spec, "Version").(*ast.CallExpr) // of version.MustParse
		if !ok {
			continue
		}
		if since, _ := text(call.Args[0]); compareMinor(since, minor) > 0 {
			break
		}
		state = strings.TrimPrefix(source(fieldOf(spec, "PreRelease")), "featuregate.")
		if source(fieldOf(spec, "Default")) == "true" {
			state += ", on"
		} else {
			state += ", off"
		}
		if lock := fieldOf(spec, "LockToDefault"); lock != nil && source(lock) == "true" {
			state += ", locked"
		}
	}
	return state
}

// compareMinor compares versions such as 1.9 and 1.37.
func compareMinor(a, b string) int {
	number := func(version string) int {
		_, minor, _ := strings.Cut(version, ".")
		n, err := strconv.Atoi(minor)
		if err != nil {
			return 0
		}
		return n
	}
	return cmp.Compare(number(a), number(b))
}

// rbacRules returns the rules of the ClusterRole of kube-scheduler.
func rbacRules(r *release) (lines []string, err error) {
	const name = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go"
	file, err := parseFile(r.kubernetes, name)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		assign, ok := node.(*ast.AssignStmt)
		if !ok || source(assign.Lhs[0]) != "kubeSchedulerRules" {
			return true
		}
		var rules []ast.Expr
		switch value := assign.Rhs[0].(type) {
		case *ast.CompositeLit:
			rules = value.Elts
		case *ast.CallExpr:
			rules = value.Args[1:] // of append
		}
		for _, rule := range rules {
			lines = append(lines, source(rule))
		}
		return false
	})
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: no assignment to kubeSchedulerRules: %w", name, fs.ErrNotExist)
	}
	return lines, nil
}
