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
				line := fmt.Sprintf("%s: %s/%s %v", topic, c.Name, w.Name, w.Labels)
				if w.Threshold != nil {
					line += fmt.Sprintf(" threshold %v", w.Threshold)
				}
				lines = append(lines, line)
			}
		}
		return nil
	})
	slices.Sort(lines)
	return lines, err
}

// integrationCases returns the names of the integration tests of the scheduler, and those of their
// cases that are literals: the fields called name, and the keys of maps of cases are not all found.
func integrationCases(r *release) ([]string, error) {
	const root = "test/integration/scheduler"
	var lines []string
	err := walkGo(r.kubernetes, root, true, func(name string, file *ast.File) error {
		topic := strings.TrimPrefix(path.Dir(name)+"/", root+"/")
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(function.Name.Name, "Test") || function.Name.Name == "TestMain" {
				continue
			}
			test := topic + function.Name.Name
			lines = append(lines, test)
			ast.Inspect(function, func(node ast.Node) bool {
				if literal, ok := node.(*ast.CompositeLit); ok {
					if name, ok := text(fieldOf(literal, "name")); ok {
						lines = append(lines, test+": "+name)
					}
				}
				return true
			})
		}
		return nil
	})
	slices.Sort(lines)
	return lines, err
}
