// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// tree returns the module of a source, and its path there.
func (r *release) tree(source string) (fs.FS, string) {
	if name, rest, _ := strings.Cut(source, "/"); r.modules[name] != nil {
		return r.modules[name], rest
	}
	return r.kubernetes, source
}

// sourceFiles returns the content of the Go files of the sources of followers: none for a source
// that this version does not have.
func (r *release) sourceFiles(all map[string][]string) (map[string]string, error) {
	files := map[string]string{}
	for _, sources := range all {
		for _, source := range sources {
			tree, root := r.tree(source)
			err := fs.WalkDir(tree, root, func(name string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() || !shipped(name) {
					return err
				}
				content, err := fs.ReadFile(tree, name)
				files[source+strings.TrimPrefix(name, root)] = string(content)
				return err
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return files, nil
}

// libraries are the sources of modules whose code livesched runs, by what runs them.
var libraries = map[string][]string{
	"the plugin DynamicResources": {"dynamic-resource-allocation/cel", "dynamic-resource-allocation/deviceclass",
		"dynamic-resource-allocation/resourceclaim", "dynamic-resource-allocation/resourceslice/tracker",
		"dynamic-resource-allocation/structured"},
	"several plugins": {"component-helpers/nodedeclaredfeatures", "component-helpers/resource",
		"component-helpers/scheduling/corev1", "component-helpers/storage"},
}

// printSources writes what has changed in the sources of followers.
func printSources(out io.Writer, before, after *release, all map[string][]string) error {
	was, err := before.sourceFiles(all)
	if err != nil {
		return err
	}
	is, err := after.sourceFiles(all)
	if err != nil {
		return err
	}
	names := maps.Clone(was)
	maps.Copy(names, is)
	unchanged := true
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] == is[name] {
			continue
		}
		unchanged = false
		what, err := describeChange(was[name], is[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(out, "- `%s`: %s.\n  For %s\n", name, what, strings.Join(followersOf(name, all), ", "))
	}
	if unchanged {
		fmt.Fprintln(out, "No change.")
	}
	return nil
}

// describeChange counts the lines that differ in a file, and names its functions and types that do.
func describeChange(before, after string) (string, error) {
	switch {
	case before == "":
		return fmt.Sprintf("new, %d lines", strings.Count(after, "\n")), nil
	case after == "":
		return fmt.Sprintf("removed, %d lines", strings.Count(before, "\n")), nil
	}
	var removed, added int
	lines := difflib.NewMatcherWithJunk(strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n"), false, nil)
	for _, op := range lines.GetOpCodes() {
		if op.Tag != 'e' {
			removed, added = removed+op.I2-op.I1, added+op.J2-op.J1
		}
	}
	was, err := declarationsByName(before)
	if err != nil {
		return "", err
	}
	is, err := declarationsByName(after)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("-%d +%d lines", removed, added)
	names := func(verb string, selected map[string]string, differs func(name string) bool) {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(selected)) {
			if differs(name) {
				list = append(list, name)
			}
		}
		if len(list) > 0 {
			what += "; " + verb + " " + strings.Join(list, ", ")
		}
	}
	missing := func(in map[string]string) func(string) bool {
		return func(name string) bool { _, ok := in[name]; return !ok }
	}
	names("changed", was, func(name string) bool { return !missing(is)(name) && was[name] != is[name] })
	names("added", is, missing(was))
	names("removed", was, missing(is))
	return what, nil
}

// declarationsByName returns the source of each function and type of a file, without comments.
func declarationsByName(content string) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if decl.Recv != nil {
				name = strings.TrimPrefix(source(decl.Recv.List[0].Type), "*") + "." + name
			}
			all[name] = source(decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					all[spec.Name.Name] = source(spec)
				}
			}
		}
	}
	return all, nil
}
