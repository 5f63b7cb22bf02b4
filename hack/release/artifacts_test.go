// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"sigs.k8s.io/yaml"
)

// testRelease builds a release of the test's repository.
func testRelease(t *testing.T, key string) (dir, digest string) {
	t.Helper()
	src := testSource(t)
	image, hash := testImage(t, src)
	manifest := filepath.Join(t.TempDir(), "install.yaml")
	if err := os.WriteFile(manifest, []byte("containers:\n- image: livesched:latest\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "out")
	r := release{source: src, layout: image, image: "registry.example.com/livesched", manifest: manifest, key: key,
		out: dir}
	if err := r.pack(testBinaries(t, src, released)); err != nil {
		t.Fatal(err)
	}
	return dir, hash.String()
}

func contentOf(t *testing.T, dir, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestAReleaseIsCompleteAndItsPartsName(t *testing.T) {
	keyFile, public := testKey(t)
	dir, digest := testRelease(t, keyFile)

	t.Run("what sha256sum checks", func(t *testing.T) {
		check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
		check.Dir = dir
		output, err := check.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		// All but the checksums themselves and their signature.
		if got := strings.Count(string(output), ": OK"); got != len(files)-2 || got != 28 {
			t.Errorf("%d of %d files have a checksum", got, len(files))
		}
	})
	t.Run("who signed the checksums", func(t *testing.T) {
		checkSignatureOf(t, public, contentOf(t, dir, "SHA256SUMS"), string(contentOf(t, dir, "SHA256SUMS.sig")))
	})
	t.Run("the image by its digest", func(t *testing.T) {
		if got := string(contentOf(t, dir, "install.yaml")); !strings.Contains(got,
			"image: registry.example.com/livesched@"+digest+"\n") {
			t.Error(got)
		}
	})
	t.Run("for krew, the plugins with their checksums", func(t *testing.T) { checkKrew(t, dir) })
	t.Run("the modules in a binary", func(t *testing.T) {
		bom := cdx.BOM{}
		if err := cdx.NewBOMDecoder(bytes.NewReader(contentOf(t, dir, "livesched_v1.2.3_linux_arm64.cdx.json")),
			cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatal(err)
		}
		if got := (*bom.Components)[0]; got.Name != "std" || got.Version != runtime.Version() {
			t.Errorf("the first component is %+v", got)
		}
	})
	t.Run("where they come from", func(t *testing.T) { checkProvenance(t, dir, digest, public) })
}

func checkKrew(t *testing.T, dir string) {
	t.Helper()
	plugin := krewPlugin{}
	if err := yaml.UnmarshalStrict(contentOf(t, dir, "livesched.krew.yaml"), &plugin); err != nil {
		t.Fatal(err)
	}
	if len(plugin.Spec.Platforms) != 5 {
		t.Errorf("there are %d platforms", len(plugin.Spec.Platforms))
	}
	for _, p := range plugin.Spec.Platforms {
		archive := contentOf(t, dir, filepath.Base(p.URI))
		if p.SHA256 != sha256Hex(archive) {
			t.Errorf("the checksum of %s is wrong", p.URI)
		}
		if p.Selector.MatchLabels["os"] != "windows" {
			continue
		}
		files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := files.Open(p.Bin); err != nil || p.Bin != "kubectl-livesched.exe" {
			t.Errorf("the program for Windows is missing: %v", err)
		}
	}
}

func checkProvenance(t *testing.T, dir, digest string, public *ecdsa.PublicKey) {
	t.Helper()
	signed := envelope{}
	if err := json.Unmarshal(contentOf(t, dir, "provenance.intoto.jsonl"), &signed); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(signed.Payload)
	if err != nil {
		t.Fatal(err)
	}
	checkSignatureOf(t, public, preAuthentication(payload), signed.Signatures[0]["sig"])
	s := statement{}
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatal(err)
	}
	if got := "sha256:" + s.Subject[0].Digest["sha256"]; got != digest {
		t.Errorf("the first subject is %s, not the image %s", got, digest)
	}
	for _, subject := range s.Subject[1:] {
		if subject.Digest["sha256"] != sha256Hex(contentOf(t, dir, subject.Name)) {
			t.Errorf("the digest of %s is wrong", subject.Name)
		}
	}
	if got := s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != "0123abc" {
		t.Errorf("the commit is %q", got)
	}
}

func checkSignatureOf(t *testing.T, public *ecdsa.PublicKey, content []byte, signature string) {
	t.Helper()
	decoded, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	if !ecdsa.VerifyASN1(public, sum[:], decoded) {
		t.Error("the signature does not hold")
	}
}

func TestTwoReleasesWithoutAKeyAreEqual(t *testing.T) {
	first, _ := testRelease(t, "")
	second, _ := testRelease(t, "")
	if a, b := contentOf(t, first, "SHA256SUMS"), contentOf(t, second, "SHA256SUMS"); !bytes.Equal(a, b) {
		t.Errorf("they differ:\n%s\n%s", a, b)
	}
	if _, err := os.Stat(filepath.Join(first, "SHA256SUMS.sig")); err == nil {
		t.Error("there is a signature without a key")
	}
}

func TestAManifestWithoutThePlaceholderIsRefused(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "install.yaml")
	if err := os.WriteFile(manifest, []byte("image: other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := release{manifest: manifest, artifacts: map[string][]byte{}}
	if err := r.addInstall("image"); err == nil {
		t.Error("there is no error")
	}
}

func TestTheUnpackedImageHasItsFiles(t *testing.T) {
	image, _ := testImage(t, testSource(t))
	dir := filepath.Join(t.TempDir(), "rootfs")
	if err := unpack(image, platform{"linux", "amd64"}, dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "livesched"))
	if err != nil || info.Mode() != 0o555 {
		t.Errorf("%v, %v", info, err)
	}
	if got := contentOf(t, dir, "etc/passwd"); string(got) != passwd {
		t.Errorf("/etc/passwd is %q", got)
	}
	if err := unpack(image, platform{"linux", "s390x"}, dir); err == nil {
		t.Error("there is an image for s390x")
	}
}
