// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// explainWidth is how much of a line is left when kubectl explain has indented it. It wraps longer lines, and leaves the
// breaks of the comment where they are, so that a wider comment is torn.
const explainWidth = 76

func TestCommentsFitKubectlExplain(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			checkWidth(t, crd.Spec.Names.Kind, version.Schema.OpenAPIV3Schema)
		}
	}
}

func checkWidth(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) {
	if strings.HasSuffix(path, ".apiVersion") || strings.HasSuffix(path, ".kind") || strings.HasSuffix(path, ".conditions[]") {
		return // not our comments
	}
	for line := range strings.Lines(schema.Description) {
		if line = strings.TrimRight(line, "\n"); len(line) > explainWidth {
			t.Errorf("%s: a comment has a line of %d characters: %s", path, len(line), line)
		}
	}
	for name, property := range schema.Properties {
		checkWidth(t, path+"."+name, &property)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		checkWidth(t, path+"[]", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		checkWidth(t, path+"{}", schema.AdditionalProperties.Schema)
	}
}
