// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestUpgradesAreDescribed compares the table in docs/development.md with the files whose comments
// name the version of Kubernetes in go.mod: the version of which somebody has read the code.
func TestUpgradesAreDescribed(t *testing.T) {
	modules, err := os.ReadFile(filepath.Join(root, "go.mod"))
	version := regexp.MustCompile(`k8s\.io/kubernetes v(\d+\.\d+)\.`).FindStringSubmatch(string(modules))
	if err != nil || version == nil {
		t.Fatalf("go.mod does not require k8s.io/kubernetes (%v)", err)
	}
	_, table, found := strings.Cut(read(t, "docs/development.md").text, "| livesched | kube-scheduler |\n")
	if !found {
		t.Fatal("docs/development.md has no table of files that follow kube-scheduler")
	}
	var described []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		described = append(described, row[1])
	}
	following := filesThatFollow(t, version[1])
	for _, file := range following {
		if !slices.Contains(described, file) {
			t.Errorf("%s names Kubernetes %s: add it to the table of upgrades in docs/development.md", file, version[1])
		}
	}
	for _, file := range described {
		if !slices.Contains(following, file) {
			t.Errorf("the table of upgrades in docs/development.md has %s. Compare it with its counterpart in "+
				"Kubernetes %s, and then change the version in its comment", file, version[1])
		}
	}
}

// filesThatFollow returns the files of livesched with a comment that names a version of Kubernetes.
func filesThatFollow(t *testing.T, version string) (files []string) {
	t.Helper()
	names := regexp.MustCompile(`//.*\b(Kubernetes|kube-scheduler)(\n\t*//)? ` + regexp.QuoteMeta(version) + `\b`)
	for _, dir := range []string{"api", "cmd", "controllers", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil || !names.Match(text) {
				return err
			}
			file, err := filepath.Rel(root, path)
			files = append(files, filepath.ToSlash(file))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
