// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"slices"
	"strings"
)

// metricsDirs are the packages with metrics of kube-scheduler, after the name of their module.
var metricsDirs = [][2]string{
	{"kubernetes", "pkg/scheduler"}, {"dynamic-resource-allocation", "."}, {"component-base", "metrics/prometheus"},
}

// metrics returns the metrics that kube-scheduler serves, with labels and stability.
func metrics(r *release) (lines []string, err error) {
	for _, place := range metricsDirs {
		tree := r.modules[place[0]]
		if place[0] == "kubernetes" {
			tree = r.kubernetes
		}
		err := walkGo(tree, place[1], false, func(_ string, file *ast.File) error {
			constants := constantsOf(file)
			ast.Inspect(file, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok && len(call.Args) > 0 {
					if line, ok := metricOf(call, constants); ok {
						lines = append(lines, line)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

// constantsOf returns the texts that a file gives names.
func constantsOf(file *ast.File) map[string]string {
	constants := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
			for i, name := range spec.Names {
				if value, ok := text(spec.Values[i]); ok {
					constants[name.Name] = value
				}
			}
		}
		return true
	})
	return constants
}

// metricOf describes the metric that a call makes, such as metrics.NewCounterVec.
func metricOf(call *ast.CallExpr, constants map[string]string) (string, bool) {
	value := func(expr ast.Expr) string {
		if value, ok := text(expr); ok {
			return value
		}
		if value, ok := constants[source(expr)]; ok {
			return value
		}
		return source(expr)
	}
	if strings.HasSuffix(source(call.Fun), ".NewDesc") {
		return describedMetric(call, value)
	}
	pointer, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return "", false
	}
	options, ok := pointer.X.(*ast.CompositeLit)
	if !ok || !strings.HasSuffix(source(options.Type), "Opts") {
		return "", false
	}
	name := fieldOf(options, "Name")
	if name == nil {
		return "", false
	}
	line := value(name)
	for _, field := range []string{"Subsystem", "Namespace"} {
		if prefix := fieldOf(options, field); prefix != nil {
			line = value(prefix) + "_" + line
		}
	}
	if len(call.Args) > 1 {
		line += " " + strings.TrimPrefix(source(call.Args[1]), "[]string")
	}
	if stability := fieldOf(options, "StabilityLevel"); stability != nil {
		line += " " + last(source(stability))
	}
	return line, true
}

// describedMetric describes a metric that is collected: its name, help, labels, constant labels and
// stability.
func describedMetric(call *ast.CallExpr, value func(ast.Expr) string) (string, bool) {
	if len(call.Args) < 5 {
		return "", false
	}
	labels := strings.TrimPrefix(source(call.Args[2]), "[]string")
	return value(call.Args[0]) + " " + labels + " " + last(source(call.Args[4])), true
}

// last returns the name that a selector selects.
func last(selector string) string { return selector[strings.LastIndex(selector, ".")+1:] }
