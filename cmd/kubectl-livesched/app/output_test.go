// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// lineWidth is the width of the terminal of tests of what commands print.
const lineWidth = 100

func testTerminal(w io.Writer) io.Writer { return terminal.Plain(w, lineWidth) }

func TestWriteAs(t *testing.T) {
	answer := json.RawMessage(`{"kind":"PodExplanation","verdict":"NeverFits","alike":1000000,"new":{"field":"of a newer livesched"}}`)
	list := []revisionView{{Number: 1, Revision: "a"}, {Number: 2, Revision: "b"}}
	for _, test := range []struct {
		format string
		value  any
		want   string
	}{
		{"jsonpath={.verdict} {.alike}", answer, "NeverFits 1000000"},
		{"jsonpath={.new.field}", answer, "of a newer livesched"},
		{"jsonpath={.items[*].revision}", list, "a b"},
		{`go-template={{.verdict}}{{"\n"}}`, answer, "NeverFits\n"},
		{"go-template={{range .items}}{{.number}},{{end}}", list, "1,2,"},
	} {
		var out bytes.Buffer
		if err := writeAs(&out, test.format, test.value); err != nil || out.String() != test.want {
			t.Errorf("%s: %q, %v", test.format, out.String(), err)
		}
	}
	var out bytes.Buffer
	if err := writeAnswer(&out, "jsonpath-as-json={.new}", answer); err != nil || !json.Valid(out.Bytes()) || !strings.Contains(out.String(), "newer") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestOutputFormatsAreChecked(t *testing.T) {
	for format, want := range map[string]string{
		"xml":           "--output: must be json, yaml, jsonpath=TEMPLATE, jsonpath-as-json=TEMPLATE or go-template=TEMPLATE, not \"xml\"",
		"jsonpath":      "--output: template format specified but no template given",
		"jsonpath={.a":  "--output: error parsing jsonpath {.a, unclosed action",
		"go-template={": "",
	} {
		code, _, errOut := runCommand(t, "doctor", "--server=https://127.0.0.1:1", "-o", format)
		if found := strings.Contains(errOut, "--output"); found != (want != "") || !strings.Contains(errOut, want) {
			t.Errorf("-o %s: %d %s", format, code, errOut)
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
		got := fitted(test.width, header, [][]string{{name, "True", other}}, 0, 2)
		want := [][]string{{test.name, "True", test.other}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d columns: %s", test.width, diff)
		}
	}
}
