// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// perfWorkloads returns the workloads of scheduler_perf, with their labels and thresholds.
func perfWorkloads(r *release) ([]string, error) {
	const root = "test/integration/scheduler_perf"
	var lines []string
	err := fs.WalkDir(r.kubernetes, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Base(name) != "performance-config.yaml" {
			return err
		}
		content, err := fs.ReadFile(r.kubernetes, name)
		if err != nil {
			return err
		}
		var cases []struct {
			Name      string
			Workloads []struct {
				Name      string
				Labels    []string
				Threshold any
			}
		}
		if err := yaml.Unmarshal(content, &cases); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		topic := strings.TrimPrefix(path.Dir(name), root+"/")
		for _, c := range cases {
			for _, w := range c.Workloads {
				line := fmt.Sprintf("%s/%s %v", c.Name, w.Name, w.Labels)
				if w.Threshold != nil {
					line += fmt.Sprintf(" threshold %v", w.Threshold)
				}
				lines = append(lines, line+" ("+topic+")")
			}
		}
		return nil
	})
	slices.Sort(lines)
	return lines, err
}

// integrationCases returns the names of the integration tests of the scheduler, and those of their
// cases that are literals: in a field called name, or in a call of Run. Tables of cases may also be
// variables of the package.
func integrationCases(r *release) (lines []string, err error) {
	const root = "test/integration/scheduler"
	for _, tests := range []bool{true, false} {
		err := walkGo(r.kubernetes, root, tests, func(name string, file *ast.File) error {
			topic := strings.TrimPrefix(path.Dir(name)+"/", root+"/")
			for _, decl := range file.Decls {
				lines = append(lines, casesOf(decl, topic)...)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// casesOf returns the lines of a test function, or of a table of cases.
func casesOf(decl ast.Decl, topic string) (lines []string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if name := decl.Name.Name; strings.HasPrefix(name, "Test") && name != "TestMain" {
			lines = append(lines, topic+name)
			for _, c := range caseNames(decl) {
				lines = append(lines, topic+name+": "+c)
			}
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok {
				for _, c := range caseNames(value) {
					lines = append(lines, topic+value.Names[0].Name+": "+c)
				}
			}
		}
	}
	return lines
}

// caseNames returns the names in a node. What is in a case, such as its objects and steps, may have
// names, too, which are not those of cases; neither are those in lists of types of other packages.
func caseNames(node ast.Node) (names []string) {
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CompositeLit:
			if list, ok := node.Type.(*ast.ArrayType); ok {
				_, foreign := list.Elt.(*ast.SelectorExpr)
				return !foreign
			}
			for _, field := range []string{"name", "Name"} {
				if name, ok := text(fieldOf(node, field)); ok {
					names = append(names, name)
					return false
				}
			}
		case *ast.CallExpr:
			if selector, ok := node.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Run" && len(node.Args) == 2 {
				if name, ok := text(node.Args[0]); ok {
					names = append(names, name)
				}
			}
		}
		return true
	})
	return names
}
