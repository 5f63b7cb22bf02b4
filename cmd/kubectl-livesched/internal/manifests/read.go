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

// extensions of the files of a directory that are read, the ones that kubectl reads.
var extensions = []string{".json", ".yaml", ".yml"}

// Read reads files, the files of directories (with recursive, of those below them, too), and
// standard input for "-". It returns what could be read, with an error that names each file that
// could not.
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
	if path == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(path)
}

// expand lists the files that a path stands for. A file that is named itself may have any
// extension.
func expand(path string, recursive bool) ([]string, error) {
	if path == "-" {
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
