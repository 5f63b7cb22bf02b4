// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package site checks the documentation site as it was built: its links, and what its search
// knows. `make test-site` builds the site and runs the tests.
package site

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
)

// built is a directory of HTML files that is served below an address.
type built struct {
	dir string
	// base is the path of the address, with a slash at its end.
	base string
	// pages are by path, which is that of the directory for an index.html.
	pages map[string]page
}

type page struct {
	links   []string
	anchors map[string]bool
}

func read(dir, base string) (*built, error) {
	s := &built{dir: dir, base: base, pages: map[string]page{}}
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".html" {
			return err
		}
		content, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		root, err := html.Parse(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("parse %s: %w", file, err)
		}
		s.pages[base+strings.TrimSuffix(file, "index.html")] = parse(root)
		return nil
	})
	return s, err
}

func parse(root *html.Node) page {
	p := page{anchors: map[string]bool{}}
	for node := range root.Descendants() {
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "href", "src":
				p.links = append(p.links, attribute.Val)
			case "id", "name":
				p.anchors[attribute.Val] = true
			}
		}
	}
	return p
}

// broken describes each link to a page, file or anchor of the site that does not exist.
func (s *built) broken() []string {
	var all []string
	for from, page := range s.pages {
		for _, link := range page.links {
			if problem := s.problem(from, link); problem != "" {
				all = append(all, from+": "+problem)
			}
		}
	}
	return all
}

func (s *built) problem(from, link string) string {
	address, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if address.IsAbs() || address.Host != "" {
		return "" // another site
	}
	address = (&url.URL{Path: from}).ResolveReference(address)
	name, ok := strings.CutPrefix(address.Path, s.base)
	if !ok {
		return fmt.Sprintf("%s is outside of %s", address.Path, s.base)
	}
	to, ok := s.pages[address.Path]
	if !ok {
		if info, err := os.Stat(filepath.Join(s.dir, name)); err != nil || info.IsDir() {
			return address.Path + " does not exist"
		}
		return ""
	}
	if address.Fragment != "" && !to.anchors[address.Fragment] {
		return fmt.Sprintf("%s has no anchor %s", address.Path, address.Fragment)
	}
	return ""
}
