// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImportsGoDownwards compares the list of packages with the imports of files that are no tests.
func TestImportsGoDownwards(t *testing.T) {
	const file = "internal/layers.txt"
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	packages := packages(t)
	var below []string
	for line := range strings.Lines(string(content)) {
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if packages[name] == nil || slices.Contains(below, name) {
			t.Errorf("%s lists %s, which is listed twice or is no package", file, name)
		}
		for _, imported := range packages[name] {
			if !slices.Contains(below, imported) {
				t.Errorf("%s imports %s, which %s does not list before it", name, imported, file)
			}
		}
		below = append(below, name)
	}
	for name, imports := range packages {
		if imports != nil && !slices.Contains(below, name) {
			t.Errorf("%s does not list the package %s", file, name)
		}
	}
}

// packages returns the packages of the main module, and which of them each imports, outside of
// tests. The list of a package that has only tests is nil.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name, _ := filepath.Rel(root, filepath.Dir(path)); {
		case d.IsDir() && (slices.Contains([]string{"testdata", "bin", "node_modules"}, d.Name()) ||
			strings.HasPrefix(d.Name(), ".") && path != root):
			return fs.SkipDir
		case d.IsDir() && path != root:
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return fs.SkipDir // a module of its own
			}
		case strings.HasSuffix(path, "_test.go"):
			if _, ok := found[name]; !ok {
				found[name] = nil
			}
		case filepath.Ext(path) == ".go":
			found[name] = append(slices.Grow(found[name], 1), imports(t, path)...) // not nil
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// imports returns the packages of the main module that a file imports.
func imports(t *testing.T, path string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if name, ok := strings.CutPrefix(imported, "github.com/livesched/livesched/"); ok {
			own = append(own, name)
		}
	}
	return own
}
