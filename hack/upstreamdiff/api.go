// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// interfaces returns the exported declarations of k8s.io/kube-scheduler: a line for each function,
// constant, method and field.
func interfaces(r *release) ([]string, error) {
	return declarations(r.modules["kube-scheduler"], "config/v1", "extender/v1", "framework")
}

// apiTypes returns the exported declarations of the API groups that decisions depend on.
func apiTypes(r *release) ([]string, error) {
	return declarations(r.modules["api"], "core/v1", "policy/v1", "resource", "scheduling", "storage/v1")
}

// extensionPoints returns the methods of the interfaces of plugins. Those of pkg/scheduler are not
// open to out-of-tree plugins.
func extensionPoints(r *release) ([]string, error) {
	method := regexp.MustCompile(`^framework\.\w*(Plugin|Extensions)\.`)
	var lines []string
	for _, part := range []struct {
		tree      fs.FS
		dir, note string
	}{{r.modules["kube-scheduler"], "framework", ""}, {r.kubernetes, "pkg/scheduler/framework", " (in-tree)"}} {
		all, err := declarations(part.tree, part.dir)
		if err != nil {
			return nil, err
		}
		for _, line := range all {
			if line = strings.TrimPrefix(line, "pkg/scheduler/"); method.MatchString(line) {
				lines = append(lines, strings.TrimPrefix(line, "framework.")+part.note)
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// declarations returns the exported declarations of the packages under some directories, after the
// path of their package.
func declarations(tree fs.FS, dirs ...string) (lines []string, err error) {
	for _, dir := range dirs {
		err := walkGo(tree, dir, false, func(name string, file *ast.File) error {
			for _, decl := range file.Decls {
				for _, line := range declared(decl) {
					lines = append(lines, path.Dir(name)+"."+line)
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
