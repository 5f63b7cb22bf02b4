// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Kustomize builds a directory with a kustomization, as `kubectl kustomize` does, and returns its
// documents. Their lines are the lines of the output.
func Kustomize(directory string) ([]Document, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return nil, fmt.Errorf("building %s with kustomize: %w", directory, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("building %s with kustomize: %w", directory, err)
	}
	return Parse("kustomize build "+directory, text)
}
