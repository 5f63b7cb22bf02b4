// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
)

// TestLibrariesAreThoseThatWereFetched compares the files of others with hack/ui/assets.sh's
// checksums.
func TestLibrariesAreThoseThatWereFetched(t *testing.T) {
	list, err := assetFiles.ReadFile("assets/CHECKSUMS")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{
		"CHECKSUMS": true, "dashboard.js": true, "heatmap.js": true, "colours.js": true, "dashboard.css": true,
		"theme.js": true, "icon.svg": true,
	}
	for line := range strings.Lines(string(list)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := assetFiles.ReadFile(path.Join("assets", name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the file that hack/ui/assets.sh has fetched", name)
		}
		own[name] = true
	}
	files, err := assetFiles.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !own[file.Name()] {
			t.Errorf("%s has no checksum: run hack/ui/assets.sh", file.Name())
		}
	}
}

func TestAssetsAreCachedByContent(t *testing.T) {
	h := pagesOf("/ui", cluster())
	total := 0
	for name, a := range loadAssets() {
		for at, cache := range map[string]string{
			"/ui/assets/" + a.hash + "/" + name: "public, max-age=31536000, immutable",
			"/ui/assets/0/" + name:              "no-store",
		} {
			r := httptest.NewRequest(http.MethodGet, at, nil)
			r.Header.Set("Accept-Encoding", "gzip")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := w.Header().Get("Cache-Control"); w.Code != http.StatusOK || got != cache {
				t.Errorf("%s: status %d, Cache-Control %q", at, w.Code, got)
			}
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			if content, err := io.ReadAll(z); err != nil || !bytes.Equal(content, a.plain) {
				t.Errorf("%s differs from the file: %v", name, err)
			}
		}
		t.Logf("%s: %d bytes, %d compressed", name, len(a.plain), len(a.compressed))
		total += len(a.compressed)
	}
	if total > 100_000 {
		t.Errorf("%d bytes are loaded with the first page", total)
	}
}
