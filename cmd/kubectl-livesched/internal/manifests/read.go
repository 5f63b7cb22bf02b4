// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// extensions are the extensions of the files that are read in a directory, as by kubectl.
var extensions = []string{".json", ".yaml", ".yml"}

// Read reads files, the files in directories (with recursive, also in subdirectories), URLs, and
// standard input for "-". It returns the documents that it could read, and an error that names each
// file that it could not.
func Read(paths []string, recursive bool, stdin io.Reader) ([]Document, error) {
	var documents []Document
	var errs []error
	for _, path := range paths {
		files, err := expand(path, recursive)
		errs = append(errs, err)
		for _, file := range files {
			text, err := readFile(file, stdin)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			parsed, err := Parse(file, text)
			errs = append(errs, err)
			documents = append(documents, parsed...)
		}
	}
	return documents, errors.Join(errs...)
}

func readFile(path string, stdin io.Reader) ([]byte, error) {
	switch {
	case path == "-":
		return io.ReadAll(stdin)
	case isURL(path):
		return download(path)
	}
	return os.ReadFile(path)
}

// expand returns the files of a path: the file itself, or the files in a directory. A file that the
// user names may have any extension.
func expand(path string, recursive bool) ([]string, error) {
	if path == "-" || isURL(path) {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != path && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains(extensions, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no file that ends in .yaml, .yml or .json", path)
	}
	return files, err
}

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

// Kustomize builds a directory with a kustomization, as `kubectl kustomize` does, and returns its
// documents. Their lines are the lines of the output.
func Kustomize(directory string) ([]Document, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return nil, fmt.Errorf("building %s with kustomize: %w", directory, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("building %s with kustomize: %w", directory, err)
	}
	return Parse("kustomize build "+directory, text)
}
