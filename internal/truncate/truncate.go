// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package truncate cuts messages to the size that the API server accepts.
package truncate

import (
	"strings"
	"unicode/utf8"
)

const suffix = " ..."

// ToBytes returns a text of at most limit bytes. A text that is longer is cut between two
// characters and ends in " ...". Bytes that are not UTF-8 are replaced, since the API server
// refuses them.
func ToBytes(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len(suffix)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + suffix
}
