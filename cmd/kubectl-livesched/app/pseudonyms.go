// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// writeNames writes the file of --pseudonyms: a pseudonym, a tab and what it stands for on each
// line, ordered by that.
func writeNames(w io.Writer, names map[string]string) error {
	pseudonyms := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[a], names[b]), cmp.Compare(a, b))
	})
	out := bufio.NewWriter(w)
	for _, pseudonym := range pseudonyms {
		_, _ = fmt.Fprintf(out, "%s\t%s\n", pseudonym, names[pseudonym]) // Flush has the error
	}
	return out.Flush()
}

// readNames reads the file of --pseudonyms.
func readNames(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--pseudonyms: %w", err)
	}
	names := map[string]string{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		pseudonym, stands, found := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
		if !found {
			return nil, fmt.Errorf("--pseudonyms: %s:%d: must be a pseudonym, a tab and a name: is this the file that snapshot --pseudonyms wrote?", name, number)
		}
		names[pseudonym] = stands
	}
	return names, nil
}
