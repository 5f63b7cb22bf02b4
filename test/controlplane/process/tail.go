// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	// tailBytes limits the bytes that Tail reads.
	tailBytes = 64 << 10
	// tailWidth limits the length of a line: some programs log whole objects.
	tailWidth = 400
)

// Tail returns at most the last n lines of a file, indented by two spaces and truncated if they are
// long. If the file cannot be read, it returns the error's text.
func Tail(path string, n int) string {
	text, err := readEnd(path, tailBytes)
	if err != nil {
		return fmt.Sprintf("  (cannot be read: %v)", err)
	}
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return "  (empty)"
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		if len(line) > tailWidth {
			lines[i] = strings.ToValidUTF8(line[:tailWidth], "") + "…"
		}
	}
	return "  " + strings.Join(lines, "\n  ")
}

func readEnd(path string, limit int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	start := max(0, info.Size()-limit)
	text, err := io.ReadAll(io.NewSectionReader(file, start, info.Size()-start))
	if err != nil {
		return "", err
	}
	if start > 0 { // the first line is cut
		if _, rest, found := strings.Cut(string(text), "\n"); found {
			return rest, nil
		}
	}
	return string(text), nil
}
