// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strconv"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

// asset is a file that pages load. All have the same hash in their paths, so that a script finds
// those that it imports beside it.
type asset struct {
	kind       string
	hash       string
	plain      []byte
	compressed []byte
}

// loadAssets returns the assets by name. Handlers share them.
var loadAssets = sync.OnceValue(func() map[string]*asset {
	files, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // they are embedded
	}
	assets, sum := map[string]*asset{}, sha256.New()
	for _, file := range files {
		kind := kindOf(file.Name())
		if kind == "" {
			continue // a licence, or the checksums
		}
		content, err := assetFiles.ReadFile(path.Join("assets", file.Name()))
		if err != nil {
			panic(err)
		}
		_, _ = sum.Write(content) // it does not fail
		assets[file.Name()] = &asset{kind: kind, plain: content, compressed: compress(content)}
	}
	hash := hex.EncodeToString(sum.Sum(nil)[:6])
	for _, a := range assets {
		a.hash = hash
	}
	return assets
})

// kindOf returns the media type of an asset. It is "" for files that pages do not load.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css", ".svg":
		return mime.TypeByExtension(path.Ext(name))
	}
	return ""
}

func compress(content []byte) []byte {
	var compressed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // the level is valid
	_, _ = z.Write(content)                                        // to memory, which does not fail
	_ = z.Close()
	return compressed.Bytes()
}

// assetPath returns the path of an asset, which changes with the content of all.
func (h *handler) assetPath(name string) string {
	return h.prefix + "/assets/" + h.assets[name].hash + "/" + name
}

// serveAsset serves an asset. A page of another version gets the present content, which is not to
// be kept under the old path.
func (h *handler) serveAsset(w http.ResponseWriter, r *http.Request) {
	a := h.assets[r.PathValue("name")]
	if a == nil {
		h.write(w, r, notFound("There is no such file."))
		return
	}
	if r.PathValue("hash") == a.hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Vary", "Accept-Encoding")
	body := a.plain
	if acceptsGzip(r) {
		body = a.compressed
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
}
