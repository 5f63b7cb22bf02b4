// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/livesched/livesched/test/docs"
)

// TestTheQuickstartPrintsWhatItsPageShows gives the tour. With UPDATE=1 it writes the transcript
// into docs/quickstart.md, and what a command of the tour prints into README.md.
func TestTheQuickstartPrintsWhatItsPageShows(t *testing.T) {
	requirePrograms(t)
	quickstart := exec.Command("bin/quickstart", "-exit")
	quickstart.Dir = root
	printed, err := quickstart.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	pages, err := docs.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	page := pages[slices.IndexFunc(pages, func(p docs.Page) bool { return p.File == "docs/quickstart.md" })]
	steps := page.Steps()
	i := slices.IndexFunc(steps, func(s docs.Step) bool { return s.Command == "make quickstart EXIT=1" })
	if i < 0 {
		t.Fatal("the page does not show make quickstart EXIT=1")
	}
	if want, got := docs.Words(steps[i].Output), docs.Words(string(printed)); want != got {
		report(t, "the tour prints\n%s\nbut the page shows\n%s", got, want)
		write(t, page.File, steps[i:i+1], []string{string(printed)})
		writeReadme(t, pages, string(printed))
	}
}

// writeReadme writes the outputs that README.md shows in full.
func writeReadme(t *testing.T, pages []docs.Page, tour string) {
	t.Helper()
	page := pages[slices.IndexFunc(pages, func(p docs.Page) bool { return p.File == "README.md" })]
	var steps []docs.Step
	var printed []string
	for _, step := range page.Steps() {
		if _, output, found := strings.Cut(tour, "    $ "+step.Command+"\n"); found {
			output, _, _ = strings.Cut(output, "\n\n")
			steps, printed = append(steps, step), append(printed, strings.ReplaceAll("\n"+output, "\n    ", "\n")[1:])
		}
	}
	write(t, page.File, steps, printed)
}

// report reports a difference, which is an error unless it is written.
func report(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		t.Logf(format, args...)
	} else {
		t.Errorf(format, args...)
	}
}

// write writes outputs into a page if UPDATE is set.
func write(t *testing.T, file string, steps []docs.Step, printed []string) {
	t.Helper()
	if os.Getenv("UPDATE") == "" {
		return
	}
	file = filepath.Join(root, file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(rewritten(string(text), steps, printed)), 0o600); err != nil {
		t.Fatal(err)
	}
}
