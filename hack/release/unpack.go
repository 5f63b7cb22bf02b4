// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// unpack replaces dir by the root file system of a platform's image, for runs without a container
// runtime.
func unpack(layoutDir string, p platform, dir string) error {
	if dir == "" {
		return errors.New("-out is needed")
	}
	index, err := read(layoutDir)
	if err != nil {
		return err
	}
	images, err := partial.FindImages(index, match.Platforms(v1.Platform{OS: p.os, Architecture: p.arch}))
	if err != nil {
		return err
	}
	if len(images) != 1 {
		return fmt.Errorf("%s has %d images for %s, not one", layoutDir, len(images), p)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// A root cannot be left: an archive that names a file outside is refused.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it was only read
	content := mutate.Extract(images[0])
	defer content.Close()
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, header, r); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	path := filepath.Clean(header.Name)
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(path, 0o755)
	case tar.TypeReg:
		f, err := root.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, header.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	default:
		return fmt.Errorf("no file and no directory, but type %q", header.Typeflag)
	}
}
