// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"strings"
	"testing"
)

const root = "../.."

func pages(t *testing.T) []Page {
	t.Helper()
	all, err := Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, file string) Page {
	t.Helper()
	for _, p := range pages(t) {
		if p.File == file {
			return p
		}
	}
	t.Fatalf("there is no page %s", file)
	return Page{}
}

func TestCommandsAreFound(t *testing.T) {
	p := parse("x.md", strings.Join([]string{
		"Run `make install`, then `kubectl livesched", "status -w`.",
		"```sh", "make image push IMAGE=x:y   # a comment", "A=b kubectl \\",
		"  get pods | kubectl livesched convert -f -", "kubectl create -f - <<EOF", "make nothing", "EOF", "```",
		"```", "$ kubectl livesched diff -f a.yaml", "make no sense: this is output", "```",
		"```yaml", "make: nothing", "```", "",
	}, "\n"))
	var got []string
	for _, words := range p.commands() {
		got = append(got, strings.Join(words, " "))
	}
	want := "make image push IMAGE=x:y\nkubectl get pods\nkubectl livesched convert -f -\nkubectl create -f - <<EOF\n" +
		"kubectl livesched diff -f a.yaml\nmake install\nkubectl livesched status -w"
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestTheReadmeShowsTheQuickstart compares the words of the transcripts in README.md with the whole
// one, which `make test-tutorials` compares with a new run.
func TestTheReadmeShowsTheQuickstart(t *testing.T) {
	whole := map[string]bool{"...": true, "": true}
	for line := range strings.Lines(read(t, "docs/quickstart.md").text) {
		whole[Words(strings.TrimSpace(line))] = true
	}
	compared := 0
	for _, b := range read(t, "README.md").blocks {
		if b.language != "" {
			continue
		}
		inCommand := false
		for _, line := range b.lines {
			if inCommand = strings.HasPrefix(line, "$ ") || inCommand && strings.HasPrefix(line, " "); inCommand {
				continue // commands may be wrapped
			}
			if compared++; !whole[Words(line)] {
				t.Errorf("docs/quickstart.md does not have the line %q", line)
			}
		}
	}
	if compared < 20 {
		t.Errorf("compared only %d lines", compared)
	}
}
