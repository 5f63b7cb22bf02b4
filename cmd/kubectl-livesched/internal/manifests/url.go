// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// urlTimeout limits how long a file is downloaded, and maxURL its size in bytes.
	urlTimeout = 30 * time.Second
	maxURL     = 16 << 20
)

func isURL(path string) bool {
	return strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://")
}

// download returns the content of a URL.
func download(url string) ([]byte, error) {
	client := http.Client{Timeout: urlTimeout}
	answer, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the server answered %s", url, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxURL+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", url, err)
	case len(text) > maxURL:
		return nil, fmt.Errorf("%s: it is larger than %d bytes", url, maxURL)
	}
	return text, nil
}
