// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package crdschema_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/crdschema"
)

// compile checks a schema with the schema of JSON Schema.
func compile(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	document, err := crdschema.JSONSchema(kind)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("livesched.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("livesched.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func object(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestTheJSONSchemaAcceptsTheSamples(t *testing.T) {
	files, err := filepath.Glob("../../../../config/samples/livesched_*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	all := compile(t, "")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sample := object(t, string(text))
		if err := all.Validate(sample); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		fields, _ := sample.(map[string]any)
		kind, _ := fields["kind"].(string)
		if err := compile(t, kind).Validate(sample); err != nil {
			t.Errorf("%s: the schema of %s: %v", file, kind, err)
		}
	}
}

func TestTheJSONSchemaRefuses(t *testing.T) {
	const head = "apiVersion: livesched.io/v1alpha1\nkind: SchedulerProfile\nmetadata: {name: a}\n"
	profile := compile(t, "SchedulerProfile")
	if err := profile.Validate(
		object(t, head+"spec: {percentageOfNodesToScore: 10, pluginConfig: [{name: A, args: {any: thing}}]}")); err !=
		nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		head + "spec: {colour: red}": "colour",
		head +
			"spec: {percentageOfNodesToScore: 101}": "percentageOfNodesToScore",
		head + "spec: {plugins: {score: {enabled: [{weight: 1}]}}}":                                "name",
		"apiVersion: livesched.io/v1\nkind: SchedulerProfile\nmetadata: {name: a}":                 "apiVersion",
		"apiVersion: livesched.io/v1alpha1\nkind: SchedulingPolicy\nmetadata: {name: a}\nspec: {}": "kind",
	} {
		if err := profile.Validate(object(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := crdschema.JSONSchema("Pod"); err == nil {
		t.Error("there is a schema of Pods")
	}
}
