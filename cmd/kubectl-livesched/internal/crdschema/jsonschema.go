// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package crdschema

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// draft is the version of JSON Schema that editors for YAML know.
const draft = "http://json-schema.org/draft-07/schema#"

// JSONSchema returns the JSON Schema of an object of a kind, or of any of livesched's kinds if kind
// is "". It permits no unknown fields. The CEL rules of the definitions are not part of it.
func JSONSchema(kind string) (map[string]any, error) {
	var schemas []any
	for _, definition := range Definitions() {
		if kind != "" && definition.Spec.Names.Kind != kind {
			continue
		}
		for i := range definition.Spec.Versions {
			schema, err := runtime.DefaultUnstructuredConverter.ToUnstructured(
				definition.Spec.Versions[i].Schema.OpenAPIV3Schema)
			if err != nil {
				return nil, fmt.Errorf("the schema of %s: %w", definition.Name, err)
			}
			closeSchema(schema)
			schema["title"], schema["required"] = definition.Spec.Names.Kind, []any{"apiVersion", "kind", "metadata"}
			if fields, ok := schema["properties"].(map[string]any); ok {
				fields["apiVersion"] = map[string]any{"const": definition.Spec.Group + "/" +
					definition.Spec.Versions[i].Name}
				fields["kind"] = map[string]any{"const": definition.Spec.Names.Kind}
			}
			schemas = append(schemas, schema)
		}
	}
	switch len(schemas) {
	case 0:
		return nil, fmt.Errorf("livesched has no definition of %q: must be SchedulerProfile or SchedulingPolicy", kind)
	case 1:
		schema, _ := schemas[0].(map[string]any)
		schema["$schema"] = draft
		return schema, nil
	}
	return map[string]any{"$schema": draft, "title": "Objects of livesched", "oneOf": schemas}, nil
}

// closeSchema makes a schema of OpenAPI one of JSON Schema that permits known fields only.
func closeSchema(value any) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	fields, known := schema["properties"].(map[string]any)
	if _, others := schema["additionalProperties"]; known && !others &&
		schema["x-kubernetes-preserve-unknown-fields"] != true {
		schema["additionalProperties"] = false
	}
	if schema["x-kubernetes-int-or-string"] == true {
		schema["type"] = []any{"integer", "string"}
		delete(schema, "anyOf")
	}
	if kind, ok := schema["type"].(string); ok && schema["nullable"] == true {
		schema["type"] = []any{kind, "null"}
	}
	for _, field := range fields {
		closeSchema(field)
	}
	closeSchema(schema["items"])
	closeSchema(schema["additionalProperties"])
}
