// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// featureGates returns the gates that the scheduler reads in one of the two versions, with their
// stage and default in this one.
func featureGates(r *release) ([]string, error) {
	states, err := gateStates(r)
	if err != nil {
		return nil, err
	}
	here, err := gatesRead(r)
	if err != nil {
		return nil, err
	}
	read := maps.Clone(here)
	if r.other != nil {
		there, err := gatesRead(r.other)
		if err != nil {
			return nil, err
		}
		maps.Copy(read, there)
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(read)) {
		switch state, ok := states[name]; {
		case ok && here[name]:
			lines = append(lines, name+" "+state)
		case ok:
			lines = append(lines, name+" "+state+", not read by the scheduler")
		}
	}
	return lines, nil
}

// gatesRead returns the names that kube-scheduler selects from pkg/features.
func gatesRead(r *release) (map[string]bool, error) {
	read := map[string]bool{}
	for _, dir := range []string{"pkg/scheduler", "cmd/kube-scheduler"} {
		err := walkGo(r.kubernetes, dir, false, func(_ string, file *ast.File) error {
			features := importName(file, "k8s.io/kubernetes/pkg/features")
			ast.Inspect(file, func(node ast.Node) bool {
				if selector, ok := node.(*ast.SelectorExpr); ok && features != "" && source(selector.X) == features {
					read[selector.Sel.Name] = true
				}
				return true
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return read, nil
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
