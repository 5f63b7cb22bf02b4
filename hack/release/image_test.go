// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var imagePlatforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}}

// testSource is a repository of its own with a program that compiles quickly.
func testSource(t *testing.T) source {
	t.Helper()
	root := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := "package main\n\nvar version = \"dev\"\n\nfunc main() { println(version) }\n"
	write("go.mod", "module example.com/program\n\ngo 1.26.0\n")
	write("LICENSE", "Apache\n")
	write("charts/livesched/Chart.yaml", stampedChart)
	write("charts/livesched/values.yaml", stampedValues)
	write("cmd/livesched/main.go", program)
	write("cmd/kubectl-livesched/main.go", program)
	write("cmd/kubectl-livesched-replay/main.go", program)
	return source{root: root, version: "v1.2.3", commit: "0123abc", ldflags: "-s -w -X main.version=v1.2.3",
		epoch: time.Unix(1800000000, 0).UTC()}
}

// testBinaries returns what was asked for, with one program that was compiled for this platform in
// the place of all: what is packed is never run, and a compiler for each platform takes long.
func testBinaries(t *testing.T, src source, wanted []binary) []binary {
	t.Helper()
	here := binary{program: "livesched", platform: platform{runtime.GOOS, runtime.GOARCH}}
	built, err := src.compileAll(t.Context(), []binary{here}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var binaries []binary
	for _, b := range wanted {
		b.path = built[0].path
		binaries = append(binaries, b)
	}
	return binaries
}

// testImage writes the image of a release to a layout.
func testImage(t *testing.T, src source) (dir string, digest v1.Hash) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "image")
	index, err := src.index(testBinaries(t, src, released[:len(imagePlatforms)]))
	if err != nil {
		t.Fatal(err)
	}
	if digest, err = write(index, dir); err != nil {
		t.Fatal(err)
	}
	return dir, digest
}

func TestTwoBuildsInDifferentDirectoriesGiveOneDigest(t *testing.T) {
	digests := map[string]bool{}
	for range 2 {
		dir := filepath.Join(t.TempDir(), "image")
		if err := buildImage(t.Context(), testSource(t), []platform{{"linux", runtime.GOARCH}}, dir); err != nil {
			t.Fatal(err)
		}
		index, err := read(dir)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[digest.String()] = true
	}
	if len(digests) != 1 {
		t.Errorf("the digests are %v", digests)
	}
}

func TestAnImageThatWasPushedIsPulledAgainAndItsSignatureHolds(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	dir, digest := testImage(t, testSource(t))
	keyFile, public := testKey(t)
	image := strings.TrimPrefix(server.URL, "http://") + "/team/livesched:v1.2.3"
	if err := push(t.Context(), dir, image, keyFile); err != nil {
		t.Fatal(err)
	}

	ref, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Error(err)
	}
	if got, err := pulled.Digest(); got != digest || err != nil {
		t.Errorf("pulled %s, %v; pushed %s", got, err, digest)
	}
	for _, p := range imagePlatforms {
		t.Run(p.String(), func(t *testing.T) {
			image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: p.os, Architecture: p.arch}))
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, image, p)
		})
	}

	signature, err := remote.Image(ref.Context().Tag(signatureTag(digest)))
	if err != nil {
		t.Fatal(err)
	}
	checkSignature(t, signature, public, digest)
}

// checkImage checks what the image of a platform consists of.
func checkImage(t *testing.T, image v1.Image, p platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != p.arch || config.OS != p.os || config.Config.User != "65532:65532" ||
		!config.Created.Equal(time.Unix(1800000000, 0)) {
		t.Errorf("the configuration is %+v", config)
	}
	files := map[string]string{}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		readLayer(t, layer, files)
	}
	if len(files) != 5 {
		t.Errorf("there are %d files, not 5", len(files))
	}
	if !strings.Contains(files["livesched"], "v1.2.3") {
		t.Error("/livesched does not have the version")
	}
	if !strings.Contains(files["etc/passwd"], ":65532:65532:") {
		t.Error("/etc/passwd does not have the user")
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(files[certificatesPath])) {
		t.Error("there are no certificates")
	}
}

// readLayer adds the content of each file to files.
func readLayer(t *testing.T, layer v1.Layer, files map[string]string) {
	t.Helper()
	content, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Mode&0o022 != 0 || header.Uid != 0 {
			t.Errorf("%s can be changed by others than root", header.Name)
		}
		if header.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			files[header.Name] = string(text)
		}
	}
}

func checkSignature(t *testing.T, image v1.Image, public *ecdsa.PublicKey, digest v1.Hash) {
	t.Helper()
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal(len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	payload, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(
		manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(payload)
	if !ecdsa.VerifyASN1(public, sum[:], signature) {
		t.Error("the signature does not hold")
	}
	if !strings.Contains(string(payload), digest.String()) {
		t.Errorf("the signature is not of %s: %s", digest, payload)
	}
}

func TestAPushNeedsAnImage(t *testing.T) {
	if err := push(t.Context(), t.TempDir(), "", ""); err == nil {
		t.Error("there is no error without a name")
	}
	if err := push(t.Context(), filepath.Join(t.TempDir(), "none"), "localhost/livesched:v1", ""); err == nil ||
		!strings.Contains(err.Error(), "make image") {
		t.Errorf("the error does not say what to run: %v", err)
	}
}

func TestAPlatformIsLinuxAndAProcessor(t *testing.T) {
	if got, err := parsePlatforms("linux/amd64,linux/arm64"); err != nil || !slices.Equal(got, imagePlatforms) {
		t.Errorf("%v, %v", got, err)
	}
	for _, list := range []string{"", "linux", "linux/", "windows/amd64", "linux/amd64,"} {
		if got, err := parsePlatforms(list); err == nil {
			t.Errorf("%q was read as %v", list, got)
		}
	}
}
