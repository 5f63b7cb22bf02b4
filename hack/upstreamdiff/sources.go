// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// follower is a file of livesched that follows code of Kubernetes: a row of the table in
// docs/development.md.
type follower struct {
	file string
	// sources are files and directories of k8s.io/kubernetes, or of one of modules after its name.
	sources []string
}

var (
	row    = regexp.MustCompile("(?m)^\\| `([^`]+\\.go)` \\| (.*) \\|$")
	quoted = regexp.MustCompile("`([^` ]+/[^` ]+)`")
)

// followers reads the table.
func followers(page string) (all []follower, err error) {
	_, table, _ := strings.Cut(page, "| livesched | kube-scheduler |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, match := range row.FindAllStringSubmatch(table, -1) {
		f := follower{file: match[1]}
		for _, source := range quoted.FindAllStringSubmatch(match[2], -1) {
			f.sources = append(f.sources, source[1])
		}
		if len(f.sources) == 0 {
			return nil, fmt.Errorf("the row of %s names no file or directory of Kubernetes", f.file)
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no table of the files that follow Kubernetes")
	}
	return all, nil
}

// tree returns the module of a source, and its path there.
func (r *release) tree(source string) (fs.FS, string) {
	if name, rest, _ := strings.Cut(source, "/"); r.modules[name] != nil {
		return r.modules[name], rest
	}
	return r.kubernetes, source
}

// printSources writes how much of the sources of each follower has changed.
func printSources(out io.Writer, before, after *release, page string) error {
	all, err := followers(page)
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n## Sources of livesched's own code\n\nCompare each file with its counterpart, and change the "+
		"version in its comment. Tests do not count.\n\n"+
		"| livesched | Kubernetes | lines removed, added |\n|---|---|---|\n")
	for _, f := range all {
		for _, source := range f.sources {
			removed, added, err := changedLines(before, after, source)
			if err != nil {
				return fmt.Errorf("%s: %w", source, err)
			}
			fmt.Fprintf(out, "| %s | %s | %d, %d |\n", f.file, source, removed, added)
		}
	}
	return nil
}

// changedLines counts the lines that differ in a file or under a directory.
func changedLines(before, after *release, source string) (removed, added int, err error) {
	was, err := goFiles(before.tree(source))
	if err != nil {
		return 0, 0, err
	}
	is, err := goFiles(after.tree(source))
	if err != nil {
		return 0, 0, err
	}
	names := slices.Sorted(maps.Keys(was))
	for name := range is {
		if _, both := was[name]; !both {
			names = append(names, name)
		}
	}
	for _, name := range names {
		for _, op := range difflib.NewMatcherWithJunk(was[name], is[name], false, nil).GetOpCodes() {
			if op.Tag != 'e' {
				removed, added = removed+op.I2-op.I1, added+op.J2-op.J1
			}
		}
	}
	return removed, added, nil
}

// goFiles returns the lines of Go files without tests, by name. A source that one of two versions
// does not have is empty.
func goFiles(tree fs.FS, root string) (map[string][]string, error) {
	files := map[string][]string{}
	err := fs.WalkDir(tree, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") ||
			strings.HasPrefix(path.Base(name), "zz_generated") {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		files[name] = strings.SplitAfter(string(content), "\n")
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	return files, err
}
