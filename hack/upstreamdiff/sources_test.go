// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository is the small repository of a scheduler that follows Kubernetes 1.37.
var repository = map[string]string{
	tablePage: "## Versions\n\n| livesched | kube-scheduler |\n|---|---|\n" +
		"| `cmd/a.go` | the features: `pkg/features` and `kube-scheduler/framework/types.go`, `kubernetes/cmd/x` |\n\nText",
	"internal/b.go": `// Package b is the cache of Kubernetes 1.37 (pkg/scheduler/backend/cache), with
// the rules of pkg/scheduler/scheduler.go. It uses k8s.io/kubernetes/pkg/scheduler.
//
// It was another in kube-scheduler
// 1.22 (pkg/scheduler/factory.go).
package b
var _ = "pkg/scheduler/no/comment.go"`,
	"internal/b_test.go": "// pkg/scheduler/of/a/test.go\npackage b",
	"internal/c.go":      "// Package c follows nothing.\npackage c",
}

func TestFollowers(t *testing.T) {
	got, err := followers(treeOf(repository), "1.37")
	want := map[string][]string{
		"cmd/a.go":      {"cmd/x", "kube-scheduler/framework/types.go", "pkg/features"},
		"internal/b.go": {"pkg/scheduler/backend/cache", "pkg/scheduler/scheduler.go"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	for _, wrong := range []string{"no table", "| livesched | kube-scheduler |\n|---|---|\n| `a.go` | the features |\n"} {
		files := maps.Clone(repository)
		files[tablePage] = wrong
		if _, err := followers(treeOf(files), "1.37"); err == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
}

func TestChangesOfSources(t *testing.T) {
	all := map[string][]string{"a.go": {"pkg/scheduler/cache"}, "b.go": {"pkg/scheduler", "kube-scheduler/framework"}}
	before := releaseOf("1.36", map[string]string{
		"pkg/scheduler/cache/cache.go": "package cache\n// A.\nfunc a() {}\nfunc (c *C) b() {}\ntype C int\n",
		"pkg/scheduler/cache/old.go":   "package cache\n",
		"pkg/scheduler/same.go":        "package scheduler\n",
	}, pluginInterfaces)
	after := releaseOf("1.37", map[string]string{
		"pkg/scheduler/cache/cache.go":      "package cache\n// B.\nfunc a() {}\nfunc (c *C) b() { c() }\ntype D int\n",
		"pkg/scheduler/cache/new.go":        "package cache\n",
		"pkg/scheduler/cache/new_test.go":   "package cache\n",
		"pkg/scheduler/cache/testing/on.go": "package testing\n",
		"pkg/scheduler/same.go":             "package scheduler\n",
	}, pluginInterfaces)
	var out strings.Builder
	if err := printSources(&out, before, after, all); err != nil {
		t.Fatal(err)
	}
	const want = "- `pkg/scheduler/cache/cache.go`: -3 +3 lines; changed C.b; added D; removed C.\n  For a.go, b.go\n" +
		"- `pkg/scheduler/cache/new.go`: new, 1 lines.\n  For a.go, b.go\n" +
		"- `pkg/scheduler/cache/old.go`: removed, 1 lines.\n  For a.go, b.go\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReviewNeedsTheSources(t *testing.T) {
	r := releaseOf("1.37", sources, pluginInterfaces)
	_, err := review("v1.37.2", r, map[string][]string{"internal/a.go": {"pkg/scheduler/gone.go", "pkg/features"}})
	if err == nil || !strings.Contains(err.Error(), "internal/a.go names pkg/scheduler/gone.go") ||
		strings.Contains(err.Error(), "pkg/features") {
		t.Errorf("got %v", err)
	}
}

func TestUnreviewed(t *testing.T) {
	all := map[string][]string{"internal/a.go": {"pkg/features"}}
	was, err := review("v1.37.2", releaseOf("1.37", sources, pluginInterfaces), all)
	if err != nil {
		t.Fatal(err)
	}
	read, err := readReviewed(treeOf(map[string]string{reviewedFile: was.String()}))
	if diff := cmp.Diff(was, read, cmp.AllowUnexported(reviewed{})); diff != "" || err != nil {
		t.Errorf("%v, (-written +read):\n%s", err, diff)
	}
	if lines := unreviewed(was, was, all); len(lines) > 0 {
		t.Errorf("got %q", lines)
	}
	for name, test := range map[string]struct{ content, file, want string }{
		"changed": {"package features\nvar X int", "pkg/features/kube_features.go",
			"pkg/features/kube_features.go has changed since v1.37.2: compare internal/a.go with it"},
		"new": {"package features", "pkg/features/new.go",
			"pkg/features/new.go is not in " + reviewedFile + ": compare internal/a.go with it"},
		"gone": {"", "pkg/features/kube_features.go",
			"pkg/features/kube_features.go is gone, or no file names it any more: see why"},
	} {
		files := maps.Clone(sources)
		if files[test.file] = test.content; test.content == "" {
			delete(files, test.file)
			files["pkg/features/doc.txt"] = "the directory is still there"
		}
		is, err := review("v1.38.0", releaseOf("1.38", files, pluginInterfaces), all)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{test.want}, unreviewed(was, is, all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSourcesAreReviewed fails after an upgrade of Kubernetes, and if a comment or the table names
// another source.
func TestSourcesAreReviewed(t *testing.T) {
	root := filepath.Join("..", "..")
	was, err := readReviewed(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	is, all, err := reviewRequired(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	lines := unreviewed(was, is, all)
	for _, line := range lines {
		t.Error(line)
	}
	if len(lines) > 0 {
		t.Errorf("`make upstream-diff FROM=%s TO=%s` prints what has changed. `make upstream-sources` confirms that all "+
			"files have been compared", was.version, is.version)
	}
}
