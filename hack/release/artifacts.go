// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

const (
	repository    = "https://github.com/livesched/livesched"
	kubectlPlugin = "kubectl-livesched"
	replayProgram = "kubectl-livesched-replay"
)

// released are the programs of a release. The scheduler runs where control planes run, the plugin
// of kubectl and the program for its command replay where people do.
var released = slices.Concat(
	onPlatforms("livesched", platform{"linux", "amd64"}, platform{"linux", "arm64"}),
	onPlatforms(kubectlPlugin, desktops...), onPlatforms(replayProgram, desktops...),
)

var desktops = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}}

func onPlatforms(program string, platforms ...platform) (binaries []binary) {
	for _, p := range platforms {
		binaries = append(binaries, binary{program: program, platform: p})
	}
	return binaries
}

// release builds the artifacts of a version. One goroutine uses it.
type release struct {
	source
	layout   string // of the image, which exists
	image    string // what the image is pushed to; a tag is not used
	manifest string // file with the manifests of config/default
	key      string // file with the key to sign with; empty: nothing is signed
	out      string // directory

	// artifacts is the content of what is in out, but for checksums and their signature.
	artifacts map[string][]byte
}

// build builds everything.
func (r *release) build(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "livesched-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory for temporary files
	binaries, err := r.compileAll(ctx, released, dir)
	if err != nil {
		return err
	}
	return r.pack(binaries)
}

// pack makes the artifacts from the binaries and the image. It replaces out only when all is there.
func (r *release) pack(binaries []binary) error {
	if r.out == "" || r.image == "" || r.manifest == "" {
		return errors.New("-out, -image (`make release IMAGE=...`) and -manifest are needed")
	}
	ref, err := name.ParseReference(r.image)
	if err != nil {
		return err
	}
	repo := ref.Context().Name()
	index, err := read(r.layout)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	r.artifacts = map[string][]byte{}
	if err := r.addPrograms(binaries); err != nil {
		return err
	}
	if err := r.addInstall(repo + "@" + digest.String()); err != nil {
		return err
	}
	if err := r.addChart(repo, digest.String()); err != nil {
		return err
	}
	if err := r.addKrew(binaries); err != nil {
		return err
	}
	if err := r.addStatements(repo, digest); err != nil {
		return err
	}
	return r.write()
}

// addPrograms adds an archive and an SBOM for each binary.
func (r *release) addPrograms(binaries []binary) error {
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	for _, b := range binaries {
		program, err := os.ReadFile(b.path)
		if err != nil {
			return err
		}
		if r.artifacts[r.archiveName(b)], err = r.archive(b, program, license); err != nil {
			return err
		}
		if r.artifacts[r.baseName(b)+".cdx.json"], err = r.sbom(b); err != nil {
			return fmt.Errorf("SBOM of %s for %s: %w", b.program, b.platform, err)
		}
	}
	return nil
}

// addInstall adds the manifests with the image by digest, so that what is installed is what was
// released even if somebody moves the tag.
func (r *release) addInstall(image string) error {
	manifests, err := os.ReadFile(r.manifest)
	if err != nil {
		return err
	}
	r.artifacts["install.yaml"], err = replaceOnce(r.manifest, manifests,
		[]replacement{{"image: livesched:latest", "image: " + image}})
	return err
}

// write replaces the directory by the artifacts, their checksums and, with a key, signatures.
func (r *release) write() error {
	sums := r.checksums()
	files := maps.Clone(r.artifacts)
	files["SHA256SUMS"] = sums
	if r.key != "" {
		key, err := loadKey(r.key)
		if err != nil {
			return err
		}
		signature, err := key.sign(sums)
		if err != nil {
			return err
		}
		files["SHA256SUMS.sig"] = []byte(base64.StdEncoding.EncodeToString(signature))
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(r.out, file), content, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d files\n", r.out, len(files))
	return nil
}

// checksums is what `sha256sum -c` reads.
func (r *release) checksums() []byte {
	var out strings.Builder
	for _, file := range slices.Sorted(maps.Keys(r.artifacts)) {
		fmt.Fprintf(&out, "%s  %s\n", sha256Hex(r.artifacts[file]), file)
	}
	return []byte(out.String())
}

func sha256Hex(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
