// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
)

// baseName is the name of a binary's files without their extension.
func (s source) baseName(b binary) string {
	return fmt.Sprintf("%s_%s_%s_%s", b.program, s.version, b.platform.os, b.platform.arch)
}

// archiveName is the name of the archive with a binary.
func (s source) archiveName(b binary) string {
	if b.platform.os == "windows" {
		return s.baseName(b) + ".zip"
	}
	return s.baseName(b) + ".tar.gz"
}

// executable is the name of a program's file.
func (b binary) executable() string {
	if b.platform.os == "windows" {
		return b.program + ".exe"
	}
	return b.program
}

// archive returns an archive with a program and the license, as users of the platform expect it.
func (s source) archive(b binary, program, license []byte) ([]byte, error) {
	files := []file{
		{path: b.executable(), mode: 0o755, content: program},
		{path: "LICENSE", mode: 0o644, content: license},
	}
	if b.platform.os == "windows" {
		return s.zip(files)
	}
	return s.tarGz(files)
}

func (s source) tarGz(files []file) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	w := tar.NewWriter(compressed)
	for _, f := range files {
		if err := s.addTo(w, f); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (s source) zip(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: s.epoch})
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
