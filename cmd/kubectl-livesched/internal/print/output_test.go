// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/livesched/livesched/internal/words"
)

func TestFormatsForPrograms(t *testing.T) {
	answer := json.RawMessage(
		`{"kind":"PodExplanation","verdict":"NeverFits","alike":1000000,"new":{"field":"of a newer livesched"}}`)
	list := []Revision{{Number: 1, Revision: "a"}, {Number: 2, Revision: "b"}}
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
		if err := As(&out, test.format, test.value); err != nil || out.String() != test.want {
			t.Errorf("%s: %q, %v", test.format, out.String(), err)
		}
	}
	var out bytes.Buffer
	if err := As(&out, "jsonpath-as-json={.new}", answer); err != nil || !json.Valid(out.Bytes()) ||
		!strings.Contains(out.String(), "newer") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestMany(t *testing.T) {
	for want, got := range map[string]string{
		"1 error": words.Many(1, "error"), "0 errors": words.Many(0, "error"),
		"1,200 policies": words.Many(1200, "policy"),
		"2 losses":       words.Many(int32(2), "loss"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
