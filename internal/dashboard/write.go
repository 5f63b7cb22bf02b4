// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"k8s.io/klog/v2"
)

//go:embed templates
var templateFiles embed.FS

// parseTemplates returns the parts of pages, and each page with the parts and the frame of a page.
func parseTemplates(functions template.FuncMap) (*template.Template, map[string]*template.Template) {
	parts := template.Must(template.New("parts").Funcs(functions).ParseFS(templateFiles,
		"templates/frame.html", "templates/parts/*.html"))
	pages := map[string]*template.Template{}
	files, err := templateFiles.ReadDir("templates/pages")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, file := range files {
		page := template.Must(parts.Clone())
		page = template.Must(page.ParseFS(templateFiles, path.Join("templates/pages", file.Name())))
		pages[strings.TrimSuffix(file.Name(), ".html")] = page
	}
	return parts, pages
}

// framed is the data of the frame of a page.
type framed struct {
	Title string
	Page  string
	Data  any
}

// write writes an answer. A template that fails leaves no half of a page.
func (h *handler) write(w http.ResponseWriter, r *http.Request, a answer) {
	if a.location != "" {
		http.Redirect(w, r, a.location, http.StatusFound)
		return
	}
	if a.status == http.StatusNoContent {
		w.WriteHeader(a.status)
		return
	}
	var body bytes.Buffer
	var err error
	kind := "text/html; charset=utf-8"
	switch {
	case a.json != nil:
		kind = "application/json"
		err = json.NewEncoder(&body).Encode(a.json)
	case a.part != "":
		err = h.parts.ExecuteTemplate(&body, a.part, a.data)
	default:
		err = h.pages[a.page].ExecuteTemplate(&body, "frame", framed{Title: a.title, Page: a.page, Data: a.data})
	}
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "Writing a page of the dashboard", "page", a.page, "part", a.part)
		http.Error(w, "livesched failed to write this page.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	writeBody(w, r, cmp.Or(a.status, http.StatusOK), body.Bytes())
}

// leastCompressed is the size from which it pays to compress a body.
const leastCompressed = 1400

// compressors are kept, because each takes much memory.
var compressors = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return z
}}

// writeBody writes a body, compressed if the client accepts that. Pages hold no secrets that
// their compressed sizes could tell.
func writeBody(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Vary", "Accept-Encoding")
	if len(body) >= leastCompressed && acceptsGzip(r) {
		var compressed bytes.Buffer
		z := compressors.Get().(*gzip.Writer)
		z.Reset(&compressed)
		_, _ = z.Write(body) // to memory, which does not fail
		_ = z.Close()
		compressors.Put(z)
		body = compressed.Bytes()
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
}

// acceptsGzip reports whether the client accepts gzip.
func acceptsGzip(r *http.Request) bool {
	for encoding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(encoding, ";")
		if strings.TrimSpace(name) == "gzip" {
			return !strings.HasPrefix(strings.ReplaceAll(quality, " ", ""), "q=0") ||
				strings.HasPrefix(strings.ReplaceAll(quality, " ", ""), "q=0.")
		}
	}
	return false
}
