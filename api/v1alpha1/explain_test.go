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

// explainWidth is the width that kubectl explain leaves for a description, after indentation. It
// wraps longer lines but keeps the line breaks of the comment, so that a wider comment reads badly.
const explainWidth = 76

func TestCommentsFitKubectlExplain(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no CRDs in %s: %v", crds, err)
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
	if strings.HasSuffix(path, ".apiVersion") || strings.HasSuffix(path, ".kind") ||
		strings.HasSuffix(path, ".conditions[]") {
		return // described by Kubernetes
	}
	for line := range strings.Lines(schema.Description) {
		if line = strings.TrimRight(line, "\n"); len(line) > explainWidth {
			t.Errorf("%s: the description has a line of %d characters: %s", path, len(line), line)
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
