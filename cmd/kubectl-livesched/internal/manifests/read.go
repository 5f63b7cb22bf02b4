// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
