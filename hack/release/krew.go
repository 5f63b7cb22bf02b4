// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// krewPlugin is a manifest of krew: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string     `json:"uri"`
	SHA256 string     `json:"sha256"`
	Bin    string     `json:"bin"`
	Files  []krewFile `json:"files"`
}

type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// addKrew adds the manifest with which krew installs the plugin of kubectl. The archives are there.
func (r *release) addKrew(binaries []binary) error {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   map[string]string{"name": "livesched"},
		Spec: krewSpec{
			Version:          r.version,
			Homepage:         repository,
			ShortDescription: "Explain pending pods; try and roll back scheduler profiles",
			Description: "Works with livesched, a scheduler whose profiles are custom resources: explains why\n" +
				"a pod is pending or on its node, simulates changes of profiles and nodes before they\n" +
				"are made, validates files offline, converts configurations of kube-scheduler, shows\n" +
				"status and history, rolls back, and compares revisions and files.\n",
		},
	}
	for _, b := range binaries {
		if b.program != kubectlPlugin {
			continue
		}
		archive := r.archiveName(b)
		entry := krewPlatform{
			URI:    fmt.Sprintf("%s/releases/download/%s/%s", repository, r.version, archive),
			SHA256: sha256Hex(r.artifacts[archive]),
			Bin:    b.executable(),
			Files:  []krewFile{{From: b.executable(), To: "."}, {From: "LICENSE", To: "."}},
		}
		entry.Selector.MatchLabels = map[string]string{"os": b.platform.os, "arch": b.platform.arch}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, entry)
	}
	manifest, err := yaml.Marshal(plugin)
	r.artifacts["livesched.krew.yaml"] = manifest
	return err
}
