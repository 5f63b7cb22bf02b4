// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package truncate

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestToBytes(t *testing.T) {
	const limit = 1024
	for name, test := range map[string]struct{ message, want string }{
		"an empty message":          {"", ""},
		"one that just fits":        {strings.Repeat("x", limit), strings.Repeat("x", limit)},
		"one a byte too long":       {strings.Repeat("x", limit+1), strings.Repeat("x", limit-4) + " ..."},
		"one with wider characters": {strings.Repeat("é", limit), strings.Repeat("é", limit/2-2) + " ..."},
		"one that is not UTF-8":     {"a\xffb", "a\uFFFDb"},
		"one that would be cut in one": {"x" + strings.Repeat("é", limit), "x" + strings.Repeat("é", limit/2-3) +
			" ..."},
	} {
		got := ToBytes(test.message, limit)
		if got != test.want || len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("%s: got %d bytes, want %d", name, len(got), len(test.want))
		}
	}
}

func TestToBytesOfAShortLimit(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"short", "short"},
		{"0123456789", "0123456789"},
		{"0123456789a", "012345 ..."},
		{"01234ßßßßß", "01234 ..."}, // not in the middle of a character
		{"bad \xff", "bad \uFFFD"},
		{"bad \xff bad \xff", "bad  ..."},
	} {
		got := ToBytes(test.text, 10)
		if got != test.want {
			t.Errorf("ToBytes(%q) is %q, want %q", test.text, got, test.want)
		}
		if len(got) > 10 || !utf8.ValidString(got) {
			t.Errorf("ToBytes(%q) is %q: %d bytes", test.text, got, len(got))
		}
	}
}
