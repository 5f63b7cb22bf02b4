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

// interfaces returns the exported declarations of k8s.io/kube-scheduler: a line for each function,
// constant, method and field.
func interfaces(r *release) ([]string, error) {
	var lines []string
	for _, dir := range []string{"config/v1", "extender/v1", "framework"} {
		err := walkGo(r.modules["kube-scheduler"], dir, false, func(name string, file *ast.File) error {
			for _, decl := range file.Decls {
				for _, line := range declared(decl) {
					lines = append(lines, path.Base(path.Dir(name))+"."+line)
				}
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

// clusterEvents returns the variables and constants of pkg/scheduler/framework/events.go, and the
// resources that events are about.
func clusterEvents(r *release) (lines []string, err error) {
	file, err := parseFile(r.kubernetes, "pkg/scheduler/framework/events.go")
	if err != nil {
		return nil, err
	}
	for _, decl := range file.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok != token.IMPORT {
			for _, spec := range general.Specs {
				lines = append(lines, source(spec))
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// declared returns the lines of a declaration.
func declared(decl ast.Decl) (lines []string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Name.IsExported() {
			receiver := ""
			if decl.Recv != nil {
				receiver = strings.TrimPrefix(source(decl.Recv.List[0].Type), "*") + "."
			}
			lines = append(lines, receiver+decl.Name.Name+signature(decl.Type))
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					lines = append(lines, members(spec)...)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						lines = append(lines, decl.Tok.String()+" "+name.Name)
					}
				}
			}
		}
	}
	return lines
}

// members returns the lines of a type: one for itself, and one for each of its methods or fields.
func members(spec *ast.TypeSpec) (lines []string) {
	var fields *ast.FieldList
	switch kind := spec.Type.(type) {
	case *ast.InterfaceType:
		lines, fields = append(lines, "type "+spec.Name.Name+" interface"), kind.Methods
	case *ast.StructType:
		lines, fields = append(lines, "type "+spec.Name.Name+" struct"), kind.Fields
	default:
		return []string{"type " + spec.Name.Name + " " + source(spec.Type)}
	}
	for _, field := range fields.List {
		what := " " + source(field.Type)
		if method, ok := field.Type.(*ast.FuncType); ok {
			what = signature(method)
		}
		if len(field.Names) == 0 {
			lines = append(lines, spec.Name.Name+" embeds"+what)
		}
		for _, name := range field.Names {
			if name.IsExported() {
				lines = append(lines, spec.Name.Name+"."+name.Name+what)
			}
		}
	}
	return lines
}

// signature returns the parameters and results of a function.
func signature(function *ast.FuncType) string { return strings.TrimPrefix(source(function), "func") }
