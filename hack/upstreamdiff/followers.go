// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// tablePage is the page with the table of the files that follow Kubernetes.
const tablePage = "docs/development.md"

var (
	row    = regexp.MustCompile("(?m)^\\| `([^`]+\\.go)` \\| (.*) \\|$")
	quoted = regexp.MustCompile("`([^` ]+/[^` ]+)`")
	// named is a file or package of k8s.io/kubernetes in a comment. pkg/scheduler alone is none: it
	// stands for kube-scheduler.
	named = regexp.MustCompile(`\b((?:pkg/(?:scheduler|features|apis|controller|util)|plugin/pkg|cmd/kube-scheduler)` +
		`/[\w./-]*\w)`)
	// ofRelease in a paragraph says that it is about the sources of that version.
	ofRelease = regexp.MustCompile(`\b(?:Kubernetes|kube-scheduler) (1\.\d+)\b`)
)

// followers returns the sources in Kubernetes of each file of livesched that follows some: those in
// the table of docs/development.md, and those that comments under internal name. Sources are files
// and directories of k8s.io/kubernetes, or of one of modules after its name. tree is the repository
// of livesched, and minor is the version that it follows.
func followers(tree fs.FS, minor string) (map[string][]string, error) {
	page, err := fs.ReadFile(tree, tablePage)
	if err != nil {
		return nil, err
	}
	all, err := tableRows(string(page))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tablePage, err)
	}
	err = fs.WalkDir(tree, "internal", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		sources, err := namedSources(name, content, minor)
		if len(sources) > 0 {
			all[name] = append(all[name], sources...)
		}
		return err
	})
	for file, sources := range all {
		slices.Sort(sources)
		all[file] = slices.Compact(sources)
	}
	return all, err
}

// tableRows reads the table.
func tableRows(page string) (map[string][]string, error) {
	all := map[string][]string{}
	_, table, _ := strings.Cut(page, "| livesched | kube-scheduler |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, match := range row.FindAllStringSubmatch(table, -1) {
		for _, source := range quoted.FindAllStringSubmatch(match[2], -1) {
			// Commands need the name of their module, which tells them from those of livesched.
			all[match[1]] = append(all[match[1]], strings.TrimPrefix(source[1], "kubernetes/"))
		}
		if len(all[match[1]]) == 0 {
			return nil, fmt.Errorf("the row of %s names no file or directory of Kubernetes", match[1])
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there is no table of the files that follow Kubernetes")
	}
	return all, nil
}

// namedSources returns the sources that the comments of a file name. A paragraph about another
// version names sources that may be gone, such as those of legacy policies.
func namedSources(name string, content []byte, minor string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	sources := map[string]bool{}
	for _, comment := range file.Comments {
		for _, paragraph := range strings.Split(commentText(comment), "\n\n") {
			if of := ofRelease.FindStringSubmatch(paragraph); of != nil && of[1] != minor {
				continue
			}
			for _, match := range named.FindAllString(paragraph, -1) {
				sources[match] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(sources)), nil
}

// commentText returns a comment with its paragraphs on one line each, since versions may wrap.
func commentText(comment *ast.CommentGroup) string {
	paragraphs := strings.Split(comment.Text(), "\n\n")
	for i := range paragraphs {
		paragraphs[i] = strings.ReplaceAll(paragraphs[i], "\n", " ")
	}
	return strings.Join(paragraphs, "\n\n")
}

// followersOf returns the files of livesched that follow a source file.
func followersOf(name string, all map[string][]string) (files []string) {
	for _, file := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(all[file], func(source string) bool {
			return name == source || strings.HasPrefix(name, source+"/")
		}) {
			files = append(files, file)
		}
	}
	return files
}
