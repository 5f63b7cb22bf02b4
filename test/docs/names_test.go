// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestEveryReasonIsDescribed looks for the constants of the API: what they mean is in the
// reference, and what to do about those that are not a success under Troubleshoot.
func TestEveryReasonIsDescribed(t *testing.T) {
	reference, troubleshoot := read(t, "docs/reference/conditions.md").text, read(t, "docs/troubleshoot.md").text
	success := sets.New("Accepted", "Programmed", "RolledBack")
	reasons := reasons(t)
	for _, reason := range reasons {
		if !strings.Contains(reference, "`"+reason+"`") {
			t.Errorf("docs/reference/conditions.md does not describe %s", reason)
		}
		if !success.Has(reason) && !strings.Contains(troubleshoot, "`"+reason+"`") {
			t.Errorf("docs/troubleshoot.md does not say what to do about %s", reason)
		}
	}
	if len(reasons) < 15 {
		t.Errorf("found only %v", reasons)
	}
}

// reasons returns the reasons of conditions: the constants of the API whose name begins with
// Reason.
func reasons(t *testing.T) []string {
	t.Helper()
	return constants(t, "condition.go",
		func(spec *ast.ValueSpec) bool { return strings.HasPrefix(spec.Names[0].Name, "Reason") })
}

// TestEveryVerdictIsDescribed looks for a row of the troubleshooting page for each word that an
// explanation can have: what to do depends on it.
func TestEveryVerdictIsDescribed(t *testing.T) {
	troubleshoot := read(t, "docs/troubleshoot.md").text
	for kind, least := range map[string]int{"Verdict": 10, "RefusalReason": 20} {
		words := constants(t, "podexplanation_types.go", func(spec *ast.ValueSpec) bool {
			named, ok := spec.Type.(*ast.Ident)
			return ok && named.Name == kind
		})
		for _, word := range words {
			if !strings.Contains(troubleshoot, "\n| `"+word+"` |") {
				t.Errorf("docs/troubleshoot.md has no row for the %s %s", kind, word)
			}
		}
		if len(words) < least {
			t.Errorf("found only %v", words)
		}
	}
}

// constants returns the values of the constants of a file of the API that are selected.
func constants(t *testing.T, file string, selected func(*ast.ValueSpec) bool) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api/v1alpha1", file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !selected(spec) {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			if text, err := strconv.Unquote(value.Value); err == nil {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

func TestEveryFlagIsDescribed(t *testing.T) {
	reference := read(t, "docs/reference/flags.md").text
	liveschedFlags().VisitAll(func(flag *pflag.Flag) {
		if !strings.Contains(reference, "`--"+flag.Name+"`") && !strings.Contains(reference, "`-"+flag.Name+"`") &&
			!flag.Hidden {
			t.Errorf("docs/reference/flags.md does not describe --%s", flag.Name)
		}
	})
}

var metric = regexp.MustCompile(`livesched_[a-z_]*[a-z]`)

// TestMetricsInTheDocumentationExist looks for each name in the code, and for each name of the code
// in the reference.
func TestMetricsInTheDocumentationExist(t *testing.T) {
	registered := registeredMetrics(t)
	for _, p := range pages(t) {
		for _, name := range metric.FindAllString(p.text, -1) {
			known := registered.Has(name)
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				known = known || registered.Has(strings.TrimSuffix(name, suffix))
			}
			// A group, such as livesched_fast_path_*, and files that are named after an object.
			if !known && !strings.Contains(p.text, name+"_*") && !strings.Contains(name, "livesched_v") {
				t.Errorf("%s: there is no metric %s", p.File, name)
			}
		}
	}
	reference := read(t, "docs/reference/metrics.md").text
	for name := range registered {
		if !strings.Contains(reference, "`"+name) {
			t.Errorf("docs/reference/metrics.md does not describe %s", name)
		}
	}
	if len(registered) < 20 {
		t.Errorf("found only the metrics %v", sets.List(registered))
	}
}

// registeredMetrics returns the names in the code that look like those of metrics.
func registeredMetrics(t *testing.T) sets.Set[string] {
	t.Helper()
	names := sets.New[string]()
	literal := regexp.MustCompile(`"(livesched_[a-z_]+)"`)
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, match := range literal.FindAllSubmatch(content, -1) {
			names.Insert(string(match[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestEveryPackageIsDescribed looks for each package of the main module in the tables of
// docs/development.md, which has all of them.
func TestEveryPackageIsDescribed(t *testing.T) {
	page := read(t, "docs/development.md").text
	packages := packages(t)
	for name := range packages {
		if !strings.Contains(page, "\n| `"+name+"` |") {
			t.Errorf("docs/development.md does not describe the package %s", name)
		}
	}
	if len(packages) < 50 {
		t.Errorf("found only the packages %v", slices.Sorted(maps.Keys(packages)))
	}
}
