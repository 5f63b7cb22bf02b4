// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParagraph(t *testing.T) {
	for name, test := range map[string]struct {
		first, others, text string
		want                string
	}{
		"short":                   {"", "  ", "one line", "one line\n"},
		"empty":                   {"", "  ", "", "\n"},
		"hanging indent":          {"", "  ", "one two three four five", "one two three\n  four five\n"},
		"item of a list":          {"  - ", "    ", "one two three four", "  - one two\n    three four\n"},
		"white space":             {"", "", " one\n\ttwo  ", "one two\n"},
		"a word that is too long": {"", "  ", "a supercalifragilistic word", "a\n  supercalifragilistic\n  word\n"},
		"wide and styled words":   {"", "", "\x1b[31m節點\x1b[m 節點 節點 x", "\x1b[31m節點\x1b[m 節點 節點\nx\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			Plain(&out, 15).Paragraph(test.first, test.others, test.text)
			if out.String() != test.want {
				t.Errorf("got\n%q\nwant\n%q", out.String(), test.want)
			}
		})
	}
}

func TestEntry(t *testing.T) {
	var out bytes.Buffer
	Plain(&out, 20).Entry("ok  ", "    ", "a text of a few words")
	Plain(&out, 0).Entry("ok  ", "    ", "a text of a few words")
	if want := "ok  a text of a few\n    words\nok  a text of a few words\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	Plain(&out, 30).Text("A text of words that is wrapped.\n\n  a   b\n\tis a usage of a flag that is wrapped\n    " +
		"-f, --long\n  name    A command with its text")
	want := `A text of words that is
wrapped.

  a   b
        is a usage of a flag
        that is wrapped
    -f, --long
  name    A command with its
          text
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	Plain(&out, 200).Text(strings.Repeat("word ", 40))
	if first, _, _ := strings.Cut(out.String(), "\n"); len(first) > 120 {
		t.Errorf("%d columns", len(first))
	}
}

func TestTable(t *testing.T) {
	header := []string{"NODES", "POOL", "WHY NOT"}
	for name, test := range map[string]struct {
		width  int
		header []string
		rows   [][]string
		want   string
	}{
		"like kubectl": {80, header, [][]string{{"3", "gpu", "taint"}, {"1,116", "a-long-name", ""}}, `
NODES   POOL          WHY NOT
3       gpu           taint
1,116   a-long-name
`},
		"last column wrapped": {40, header,
			[][]string{{"3", "gpu", "taint nvidia.com/gpu=present:NoSchedule of all"}}, `
NODES   POOL   WHY NOT
3       gpu    taint
               nvidia.com/gpu=present:NoSchedule
               of all
`},
		"no room to wrap": {24, header, [][]string{{"3", "gpu", "a long text that has no room"}}, `
NODES   POOL   WHY NOT
3       gpu    a long text that has no room
`},
		"unwrapped without a terminal": {0, header, [][]string{{"3", "gpu", strings.Repeat("word ", 40) + "end"}}, `
NODES   POOL   WHY NOT
3       gpu    ` + strings.Repeat("word ", 40) + `end
`},
		"without a header": {80, nil, [][]string{{"a", "b"}}, "\na     b\n"},
		"style of wrapped lines": {30, nil, [][]string{{"x", "\x1b[31mone two three four five six\x1b[m"}},
			"\nx     \x1b[31mone two three four five\x1b[m\n      \x1b[31msix\x1b[m\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Plain(&out, test.width).Table(test.header, test.rows); err != nil {
				t.Fatal(err)
			}
			if got := "\n" + out.String(); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestRoomOfTheLastColumn(t *testing.T) {
	header, rows := []string{"A", "B"}, [][]string{{"a long cell", "b"}}
	for width, want := range map[int]int{0: math.MaxInt32, 20: 6, 10: 0} {
		if got := Plain(&bytes.Buffer{}, width).LastColumn(ColumnsOf(header, rows)); got != want {
			t.Errorf("%d of %d columns, want %d", got, width, want)
		}
	}
}

func TestTableWithoutHeaders(t *testing.T) {
	var out bytes.Buffer
	if err := Plain(&out, 80).WithoutHeaders().Table([]string{"A LONG HEADER", "B"},
		[][]string{{"a", "b"}}); err != nil || out.String() != "a     b\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWidthOfAPipe(t *testing.T) {
	for columns, want := range map[string]struct{ text, tables int }{
		"": {80, 0}, "120": {120, 120}, "5": {40, 5}, "wide": {80, 0}, "-1": {80, 0},
	} {
		t.Setenv("COLUMNS", columns)
		got := Of(&bytes.Buffer{})
		if got.width != want.text || got.tables != want.tables {
			t.Errorf("COLUMNS=%q: got %d and %d, want %+v", columns, got.width, got.tables, want)
		}
	}
}

func TestColors(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for mode, want := range map[ColorMode]string{ColorAuto: "x", ColorNever: "x", ColorAlways: "\x1b[31mx\x1b[m"} {
		if got := New(file, mode).Bad("x"); got != want {
			t.Errorf("--color=%s: %q in a file, want %q", mode, got, want)
		}
	}
	colored := Colored(&bytes.Buffer{}, 80)
	if Of(colored) != colored || New(colored, ColorNever) != colored {
		t.Error("a Terminal is not the Terminal of itself")
	}
	for status, want := range map[string]string{"True": "True", "False": colored.Bad("False"),
		"Unknown": colored.Warn("Unknown")} {
		if got := colored.Condition(status); got != want {
			t.Errorf("condition %s: %q", status, got)
		}
	}
	if _, err := ParseColorMode("red"); err == nil || !strings.Contains(err.Error(), "auto, always or never") {
		t.Errorf("--color=red: %v", err)
	}
}

func TestDiff(t *testing.T) {
	text := "--- a\n+++ b\n@@ -1 +1 @@\n same\n-old\n+new\n"
	var plain, colored bytes.Buffer
	if err := Plain(&plain, 80).Diff(text); err != nil || plain.String() != text {
		t.Errorf("%q, %v", plain.String(), err)
	}
	want := "\x1b[1m--- a\x1b[m\n\x1b[1m+++ b\x1b[m\n\x1b[2m@@ -1 +1 @@\x1b[m\n same\n\x1b[31m-old\x1b[m\n" +
		"\x1b[32m+new\x1b[m\n"
	if err := Colored(&colored, 80).Diff(text); err != nil || colored.String() != want {
		t.Errorf("%q, %v", colored.String(), err)
	}
}

func TestReasonsAreCutBetweenWords(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"one two", "one two"},
		{"one two three four", "one two three four"},
		{"one two three four five", "one two three ..."},
		{"supercalifragilistic", "supercalifragilistic"},
		{"one supercalifragilistic two", "one supercalifragilistic ..."},
	} {
		if got := Shorten(test.text, 2, 10); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}

func TestTablesAreFittedToTheTerminal(t *testing.T) {
	const name, other = "a-name-of-twenty-one-", "another-of-twenty-two-"
	header := []string{"NAME", "READY", "OTHER"}
	for _, test := range []struct {
		width       int
		name, other string
	}{
		{59, name, other}, // 21 + 3 + 5 + 3 + 22 are 54
		{54, name, other},
		{53, name, "another-of-twenty-tw…"},
		{41, "a-name-of-twenty-…", "another-of-…"},
		{20, "a-name-…", "another…"}, // no less, on whatever terminal
	} {
		got := Plain(nil, test.width).Fit(header, [][]string{{name, "True", other}}, 0, 2)
		want := [][]string{{test.name, "True", test.other}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d columns: %s", test.width, diff)
		}
	}
}
