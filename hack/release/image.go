// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// buildImage builds livesched for some platforms, and writes the image to a layout.
func buildImage(ctx context.Context, src source, platforms []platform, layoutDir string) error {
	dir, err := os.MkdirTemp("", "livesched-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory for temporary files
	var wanted []binary
	for _, p := range platforms {
		wanted = append(wanted, binary{program: "livesched", platform: p})
	}
	binaries, err := src.compileAll(ctx, wanted, dir)
	if err != nil {
		return err
	}
	index, err := src.index(binaries)
	if err != nil {
		return err
	}
	digest, err := write(index, layoutDir)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", layoutDir, digest)
	return nil
}

// index returns an image for the platforms of the binaries.
func (s source) index(binaries []binary) (v1.ImageIndex, error) {
	base, err := s.baseLayer()
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		image, err := s.image(b, base)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", b.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.platform.os, Architecture: b.platform.arch}},
		})
	}
	return mutate.Annotations(index, s.annotations()).(v1.ImageIndex), nil
}

// image returns the image for one platform: the base layer, which is the same for all, and one
// with the binary.
func (s source) image(b binary, base v1.Layer) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	top, err := s.layer([]file{{path: "livesched", mode: 0o555, content: program}})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: b.platform.os, Architecture: b.platform.arch, Created: v1.Time{Time: s.epoch},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/livesched"},
			User:       user, // by number, so that the kubelet can check runAsNonRoot
			WorkingDir: "/",
			Labels:     s.annotations(),
		},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: base, History: s.history("certificates of public authorities, users and license")},
		mutate.Addendum{Layer: top, History: s.history("the program")})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, s.annotations()).(v1.Image), nil
}

func (s source) history(comment string) v1.History {
	return v1.History{Created: v1.Time{Time: s.epoch}, CreatedBy: "hack/release", Comment: comment}
}

func (s source) annotations() map[string]string {
	annotations := map[string]string{
		"org.opencontainers.image.title":    "livesched",
		"org.opencontainers.image.version":  s.version,
		"org.opencontainers.image.source":   repository,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	if s.commit != "" {
		annotations["org.opencontainers.image.revision"] = s.commit
	}
	return annotations
}

// write replaces dir by an OCI layout with one index, and returns the digest of that index.
func write(index v1.ImageIndex, dir string) (v1.Hash, error) {
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := path.AppendIndex(index); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// read returns the index of a layout.
func read(dir string) (v1.ImageIndex, error) {
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("no image, which `make image` builds: %w", err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images, not one", dir, len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}

// push pushes the image of a layout and, with a key, its signature.
func push(ctx context.Context, dir, image, keyFile string) error {
	if image == "" {
		return errors.New("there is no image to push to, such as registry.example.com/livesched:v1.0.0")
	}
	ref, err := name.ParseReference(image)
	if err != nil {
		return err
	}
	index, err := read(dir)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(ref, index, options...); err != nil {
		return err
	}
	fmt.Printf("pushed %s\n", ref.Context().Digest(digest.String()))
	if keyFile == "" {
		return nil
	}
	signer, err := loadKey(keyFile)
	if err != nil {
		return err
	}
	signature, err := signer.imageSignature(ref.Context().Digest(digest.String()))
	if err != nil {
		return err
	}
	tag := ref.Context().Tag(signatureTag(digest))
	if err := remote.Write(tag, signature, options...); err != nil {
		return err
	}
	fmt.Printf("signed: %s\n", tag)
	return nil
}
