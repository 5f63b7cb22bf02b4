// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// reviewedFile has the hash of each source as it was when livesched's code was last compared with
// it: lines with its name and hash, after one with the version of Kubernetes.
const reviewedFile = "hack/upstreamdiff/sources.sum"

// reviewed is the content of reviewedFile.
type reviewed struct {
	version string
	hashes  map[string]string
}

// readReviewed reads reviewedFile.
func readReviewed(tree fs.FS) (*reviewed, error) {
	content, err := fs.ReadFile(tree, reviewedFile)
	if err != nil {
		return nil, err
	}
	r := &reviewed{hashes: map[string]string{}}
	for i, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		key, value, ok := strings.Cut(line, " ")
		switch {
		case !ok:
			return nil, fmt.Errorf("%s:%d: %q is not a name and a hash; run `make upstream-sources`", reviewedFile, i+1, line)
		case i == 0:
			r.version = value
		default:
			r.hashes[key] = value
		}
	}
	return r, nil
}

// String returns the text of the file.
func (r *reviewed) String() string {
	lines := []string{"k8s.io/kubernetes " + r.version}
	for _, name := range slices.Sorted(maps.Keys(r.hashes)) {
		lines = append(lines, name+" "+r.hashes[name])
	}
	return strings.Join(lines, "\n") + "\n"
}

// review returns the hashes of the sources of followers in a version. It fails if it does not have
// one of them.
func review(version string, r *release, all map[string][]string) (*reviewed, error) {
	var missing []error
	for _, file := range slices.Sorted(maps.Keys(all)) {
		for _, source := range all[file] {
			if _, err := fs.Stat(r.tree(source)); err != nil {
				missing = append(missing, fmt.Errorf("%s names %s, which Kubernetes %s does not have: "+
					"name where that code is now", file, source, version))
			}
		}
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	files, err := r.sourceFiles(all)
	if err != nil {
		return nil, err
	}
	result := &reviewed{version: version, hashes: map[string]string{}}
	for name, content := range files {
		sum := sha256.Sum256([]byte(content))
		result.hashes[name] = hex.EncodeToString(sum[:])
	}
	return result, nil
}

// unreviewed returns a line for each source that is not as it was when it was compared.
func unreviewed(was, is *reviewed, all map[string][]string) (lines []string) {
	for name, hash := range is.hashes {
		switch old, ok := was.hashes[name]; {
		case !ok:
			lines = append(lines, fmt.Sprintf("%s is not in %s: compare %s with it", name, reviewedFile,
				strings.Join(followersOf(name, all), ", ")))
		case old != hash:
			lines = append(lines, fmt.Sprintf("%s has changed since %s: compare %s with it", name, was.version,
				strings.Join(followersOf(name, all), ", ")))
		}
	}
	for name := range was.hashes {
		if _, ok := is.hashes[name]; !ok {
			lines = append(lines, name+" is gone, or no file names it any more: see why")
		}
	}
	slices.Sort(lines)
	return lines
}

// required returns the sources of the version in go.mod, from the module cache and without network.
func required(ctx context.Context, root string) (version string, r *release, err error) {
	r = &release{modules: map[string]fs.FS{}}
	for _, name := range append([]string{"kubernetes"}, modules...) {
		command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "k8s.io/"+name)
		command.Dir, command.Env = root, append(os.Environ(), "GOPROXY=off")
		text, err := command.Output()
		if err != nil {
			return "", nil, fmt.Errorf("go list -m k8s.io/%s: %w", name, err)
		}
		found, dir, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		if dir == "" {
			return "", nil, fmt.Errorf("k8s.io/%s@%s is not in the module cache: run `go mod download`", name, found)
		}
		if r.modules[name] = os.DirFS(dir); name == "kubernetes" {
			version, r.kubernetes = found, os.DirFS(dir)
		}
	}
	delete(r.modules, "kubernetes")
	if r.minor, err = minorOf(version); err != nil {
		return "", nil, err
	}
	return version, r, nil
}

// reviewRequired returns the hashes of the sources in the version of go.mod, and who follows them.
func reviewRequired(ctx context.Context, root string) (*reviewed, map[string][]string, error) {
	version, r, err := required(ctx, root)
	if err != nil {
		return nil, nil, err
	}
	all, err := followers(os.DirFS(root), r.minor)
	if err != nil {
		return nil, nil, err
	}
	is, err := review(version, r, all)
	return is, all, err
}

// confirm writes reviewedFile for the version in go.mod.
func confirm(ctx context.Context, root string) error {
	is, _, err := reviewRequired(ctx, root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, reviewedFile), []byte(is.String()), 0o600)
}
