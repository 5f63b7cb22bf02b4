// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/livesched/livesched/test/testcluster"
)

// listed finds the tests that the page names: a file and words of the test's name, which may
// continue on indented lines.
var listed = regexp.MustCompile("(?m)^(?:- |\\| )`([a-z0-9_/]+_test\\.go)`: ([^|\n]+(?:\n  [^|\n]+)*)")

// concatenation is where a text goes on in the next line.
var concatenation = regexp.MustCompile(`" ?\+\n\s*"`)

func TestReloadRulesPageNamesExistingTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testcluster.Root(), "docs", "reload-rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := listed.FindAllStringSubmatch(string(page), -1)
	if len(found) < 40 {
		t.Errorf("the page names %d tests only", len(found))
	}
	named := map[string]bool{}
	for _, m := range found {
		file, name := m[1], strings.Join(strings.Fields(m[2]), " ")
		named[name] = true
		source, err := os.ReadFile(filepath.Join(testcluster.Root(), file))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(concatenation.ReplaceAllString(string(source), ""), name) {
			t.Errorf("%s has no test %q", file, name)
		}
	}
	for _, m := range moments {
		if !named[m.name] {
			t.Errorf("the page does not name the moment %q", m.name)
		}
	}
	for _, c := range changes {
		if !named[c.name] {
			t.Errorf("the page does not name the change %q", c.name)
		}
	}
}
