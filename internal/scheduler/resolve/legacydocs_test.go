// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// The tables in the documentation must equal those in the code. -update writes them.
func TestTheDocumentationHasEveryLegacyName(t *testing.T) {
	file := filepath.Join("..", "..", "..", "docs", "reference", "legacy-policy.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := replaceTable(t, string(text), "predicates", legacyTable("Predicate", resolve.LegacyPredicates()))
	want = replaceTable(t, want, "priorities", legacyTable("Priority", resolve.LegacyPriorities()))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s is not what the code says (-want +got), write it with -update:\n%s", file, diff)
	}
}

// replaceTable puts a table between the two comments that mark its place.
func replaceTable(t *testing.T, text, name, table string) string {
	t.Helper()
	before, rest, found := strings.Cut(text, "<!-- "+name+": ")
	comment, rest, foundComment := strings.Cut(rest, "\n")
	_, after, foundEnd := strings.Cut(rest, "<!-- end of "+name+" -->")
	if !found || !foundComment || !foundEnd {
		t.Fatalf("no place for the table of %s", name)
	}
	return before + "<!-- " + name + ": " + comment + "\n" + table + "<!-- end of " + name + " -->" + after
}

func legacyTable(title string, names []resolve.LegacyName) string {
	var table strings.Builder
	fmt.Fprintf(&table, "| %s | Argument | Kubernetes | Runs as | Difference to 1.22, or to the last version that "+
		"had it |\n|---|---|---|---|---|\n", title)
	for _, entry := range names {
		name, argument := "any name", ""
		if entry.Name != "" {
			name = "`" + entry.Name + "`"
		}
		if entry.Argument != "" {
			argument = "`" + entry.Argument + "`"
		}
		runs := "nothing: all nodes are equal"
		if len(entry.Plugins) > 0 {
			runs = "`" + strings.Join(entry.Plugins, "`, `") + "`"
		}
		difference := entry.Difference
		if difference == "" {
			difference = "none"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", name, argument, entry.Versions, runs, difference)
	}
	return table.String()
}
