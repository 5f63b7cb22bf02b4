// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// parseFile parses a Go file.
func parseFile(tree fs.FS, name string) (*ast.File, error) {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	return parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
}

// walkGo calls visit for the Go files under a directory, in the order of their names. tests selects
// the files of tests, or the others.
func walkGo(tree fs.FS, dir string, tests bool, visit func(name string, file *ast.File) error) error {
	return fs.WalkDir(tree, dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry.IsDir():
			return err
		case tests && !strings.HasSuffix(name, "_test.go"), !tests && !shipped(name):
			return nil
		}
		file, err := parseFile(tree, name)
		if err != nil {
			return err
		}
		return visit(name, file)
	})
}

// shipped reports whether a file is Go source that was written for the product: neither generated
// nor for tests.
func shipped(name string) bool {
	return path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") &&
		!strings.Contains(path.Base(name), "generated") && !strings.Contains(name, "testing/") &&
		!strings.Contains(name, "/fuzzer/")
}

// followed are the lines of Kubernetes' go.mod that livesched's go.mod follows. Modules of the same
// repository have the version v0.0.0.
var followed = regexp.MustCompile(
	`^(go|k8s\.io/\S+|sigs\.k8s\.io/\S+|go\.etcd\.io/\S+|github\.com/google/cel-go) \S+$`)

// requirements returns the version of Go, and those of modules that change with Kubernetes.
func requirements(r *release) (lines []string, err error) {
	content, err := fs.ReadFile(r.kubernetes, "go.mod")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); followed.MatchString(line) && !strings.HasSuffix(line, " v0.0.0") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// importName returns the name by which a file imports a package, empty if it does not.
func importName(file *ast.File, pkg string) string {
	for _, spec := range file.Imports {
		if value, _ := text(spec.Path); value != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(pkg)
	}
	return ""
}

// source returns the source of a node on one line.
func source(node any) string {
	var text bytes.Buffer
	if err := printer.Fprint(&text, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// fieldOf returns the value of a field of a composite literal, nil if it is not set.
func fieldOf(literal *ast.CompositeLit, field string) ast.Expr {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok && source(pair.Key) == field {
			return pair.Value
		}
	}
	return nil
}

// text returns the value of a string literal.
func text(expr ast.Expr) (value string, ok bool) {
	literal, ok := expr.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}
