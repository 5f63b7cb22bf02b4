// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

// key signs in the formats of cosign: ECDSA over the SHA-256 sum, in ASN.1.
type key struct{ *ecdsa.PrivateKey }

// loadKey reads an ECDSA key in PEM: PKCS #8, or as `cosign generate-key-pair` writes it, which is
// encrypted with the password in COSIGN_PASSWORD.
func loadKey(path string) (key, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return key{}, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return key{}, fmt.Errorf("%s is not in PEM format", path)
	}
	der := block.Bytes
	switch block.Type {
	case "PRIVATE KEY":
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		if der, err = encrypted.Decrypt(der, []byte(os.Getenv("COSIGN_PASSWORD"))); err != nil {
			return key{}, fmt.Errorf("%s: %w; the password must be in COSIGN_PASSWORD", path, err)
		}
	default:
		return key{}, fmt.Errorf("%s has a block of type %q; a PRIVATE KEY in PKCS #8 or a key of cosign is needed",
			path, block.Type)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return key{}, fmt.Errorf("%s: %w", path, err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return key{}, errors.New("only ECDSA keys can sign")
	}
	return key{private}, nil
}

func (k key) sign(content []byte) ([]byte, error) {
	sum := sha256.Sum256(content)
	return ecdsa.SignASN1(rand.Reader, k.PrivateKey, sum[:])
}

// signatureTag is the tag under which cosign looks for the signatures of a digest.
func signatureTag(digest v1.Hash) string {
	return digest.Algorithm + "-" + digest.Hex + ".sig"
}

// imageSignature returns the image in which cosign stores the signature of an image:
// https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
func (k key) imageSignature(image name.Digest) (v1.Image, error) {
	payload, err := json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]string{"docker-reference": image.Context().Name()},
			"image":    map[string]string{"docker-manifest-digest": image.DigestStr()},
			"type":     "cosign container image signature",
		},
		"optional": nil,
	})
	if err != nil {
		return nil, err
	}
	signature, err := k.sign(payload)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{
			"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)},
	})
}
