// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

// testKey writes a new key to a file, as PKCS #8.
func testKey(t *testing.T) (path string, public *ecdsa.PublicKey) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return testPEM(t, "PRIVATE KEY", der), &private.PublicKey
}

func testPEM(t *testing.T, kind string, content []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAKeyOfCosignIsReadWithItsPasswordOnly(t *testing.T) {
	plain, public := testKey(t)
	content, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	der, err := encrypted.Encrypt(block.Bytes, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	path := testPEM(t, "ENCRYPTED SIGSTORE PRIVATE KEY", der)

	t.Setenv("COSIGN_PASSWORD", "secret")
	if key, err := loadKey(path); err != nil || !key.PublicKey.Equal(public) {
		t.Errorf("the key was not read: %v", err)
	}
	t.Setenv("COSIGN_PASSWORD", "wrong")
	if _, err := loadKey(path); err == nil {
		t.Error("the key was read with a wrong password")
	}
}

func TestAFileThatIsNoKeyIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, testPEM(t, "CERTIFICATE", nil), testPEM(t, "PRIVATE KEY", []byte("no key")),
		path + "-none"} {
		if _, err := loadKey(path); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}
