// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	user             = "65532:65532"
	certificatesPath = "etc/ssl/certs/ca-certificates.crt"

	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/nonexistent:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// file is a file of a layer. It belongs to root, so that livesched cannot change it.
type file struct {
	path    string
	mode    int64
	content []byte
}

// baseLayer is what a static binary needs: it replaces a base image, which would be a second
// project whose updates have to be followed.
func (s source) baseLayer() (v1.Layer, error) {
	license, err := os.ReadFile(filepath.Join(s.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	return s.layer([]file{
		{path: certificatesPath, mode: 0o444, content: certificates()},
		{path: "etc/group", mode: 0o444, content: []byte(group)},
		{path: "etc/passwd", mode: 0o444, content: []byte(passwd)},
		{path: "usr/share/doc/livesched/LICENSE", mode: 0o444, content: license},
	})
}

// certificates returns Mozilla's certificates of public authorities in PEM, from a Go module whose
// hash go.sum has. Those that hold for some certificates only are left out: PEM cannot say so.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// layer returns a layer with files and the directories above them.
func (s source) layer(files []file) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	written := map[string]bool{".": true}
	for _, f := range files {
		for _, dir := range parents(f.path) {
			if written[dir] {
				continue
			}
			written[dir] = true
			header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: s.epoch,
				Format: tar.FormatPAX}
			if err := w.WriteHeader(header); err != nil {
				return nil, err
			}
		}
		if err := s.addTo(w, f); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// addTo writes a file to a tar archive.
func (s source) addTo(w *tar.Writer, f file) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)),
		ModTime: s.epoch, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(f.content)
	return err
}

// parents returns the directories above a path, the outermost first.
func parents(p string) []string {
	var dirs []string
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}
