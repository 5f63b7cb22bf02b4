// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package site

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const docs = "../../docs"

// fromEnvironment returns the site that `make test-site` built.
func fromEnvironment(t *testing.T) *built {
	t.Helper()
	dir, base := os.Getenv("SITE"), os.Getenv("SITE_BASE")
	if dir == "" || base == "" {
		t.Skip("there is no site in SITE, served below SITE_BASE: run `make test-site`")
	}
	s, err := read(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLinksResolve(t *testing.T) {
	s := fromEnvironment(t)
	for _, link := range s.broken() {
		t.Error(link)
	}
	links := 0
	for _, page := range s.pages {
		links += len(page.links)
	}
	if links < 1000 {
		t.Errorf("found only %d links", links)
	}
}

// TestSearchKnowsEveryPage looks for each Markdown file and each of its headings in what the
// browser searches. Only the index of the pages, docs/README.md, is not in it.
func TestSearchKnowsEveryPage(t *testing.T) {
	s := fromEnvironment(t)
	found, err := filepath.Glob(filepath.Join(s.dir, "*.search-data*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got the search data %v (%v), want one file", found, err)
	}
	content, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]struct {
		Title string
		Data  map[string]string
	}
	if err := json.Unmarshal(content, &index); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = fs.WalkDir(os.DirFS(docs), ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".md" || file == "README.md" {
			return err
		}
		files++
		address := s.base + strings.TrimSuffix(file, ".md") + "/"
		title, headings := headings(t, file)
		page, ok := index[address]
		if !ok || page.Title != title {
			t.Errorf("docs/%s: the search has %q at %s, want %q", file, page.Title, address, title)
		}
		var got []string
		for key := range page.Data {
			if _, heading, ok := strings.Cut(key, "#"); ok {
				got = append(got, heading)
			}
		}
		slices.Sort(got)
		slices.Sort(headings)
		if !slices.Equal(got, headings) {
			t.Errorf("docs/%s: the search has the headings %q, want %q", file, got, headings)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 40 || len(index) != files {
		t.Errorf("the search has %d pages, docs has %d", len(index), files)
	}
}

var code = regexp.MustCompile("(?ms)^ *```.*?^ *```")

// headings returns the title of a Markdown file, and the headings of the second level.
func headings(t *testing.T, file string) (title string, second []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(docs, file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(code.ReplaceAllString(string(content), "")) {
		line = strings.ReplaceAll(strings.TrimSpace(line), "`", "")
		if text, ok := strings.CutPrefix(line, "# "); ok && title == "" {
			title = text
		}
		if text, ok := strings.CutPrefix(line, "## "); ok {
			second = append(second, text)
		}
	}
	return title, second
}

func TestBrokenLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html": `<h2 id="here">x</h2>
			<a href="/site/other/#there">good</a> <a href="#here">good</a> <a href="https://example.org">other site</a>
			<a href="/site/none/">a</a> <a href="/site/other/#none">b</a> <a href="/other/">c</a> <img src="none.svg">`,
		"other/index.html": `<p id="there"><a href="../">good</a> <a href="page.md">d</a></p>`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := read(dir, "/site/")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/site/: /other/ is outside of /site/",
		"/site/: /site/none/ does not exist",
		"/site/: /site/other/ has no anchor none",
		"/site/: /site/none.svg does not exist",
		"/site/other/: /site/other/page.md does not exist",
	}
	got := s.broken()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
