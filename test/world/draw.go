// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// words draw values where a schema says too little, by path. nil: the field stays unset.
type words map[string]func(*rand.Rand) any

// drawer draws values of the types in the schemas of custom resources.
type drawer struct {
	*rand.Rand
	words words
	// invalid is true if it has drawn a value that the schema does not allow.
	invalid bool
}

// draw returns a value of a type, of which path is the name.
func (d *drawer) draw(schema *apiextensionsv1.JSONSchemaProps, path string) any {
	if word, ok := d.words[path]; ok {
		return word(d.Rand)
	}
	switch {
	case len(schema.Enum) > 0:
		return strings.Trim(string(one(d.Rand, schema.Enum).Raw), `"`)
	case strings.Contains(schema.Pattern, "h|m|s|ms"):
		return one(d.Rand, []string{"0s", "100ms", "1s", "5s", "20s"})
	}
	switch schema.Type {
	case "object":
		return d.object(schema, path)
	case "array":
		return d.list(schema, path)
	case "integer":
		return d.integer(int64(ptr.Deref(schema.Minimum, 0)), int64(ptr.Deref(schema.Maximum, 100)))
	case "boolean":
		return d.IntN(2) == 0
	}
	panic(fmt.Sprintf("%s is a %s, for which there are no words", path, schema.Type))
}

// list draws a list whose items differ in their names, if they have any.
func (d *drawer) list(schema *apiextensionsv1.JSONSchemaProps, path string) []any {
	list := []any{}
	names := map[any]bool{}
	least := int(ptr.Deref(schema.MinItems, 0))
	for range least + d.IntN(4) {
		invalid := d.invalid
		item := d.draw(schema.Items.Schema, path+"[]")
		if fields, ok := item.(map[string]any); ok {
			name := cmp.Or(fields["name"], fields["metricName"])
			if name != nil && names[name] {
				d.invalid = invalid
				continue
			}
			names[name] = true
		}
		list = append(list, item)
	}
	return list
}

// object draws the fields that are required or have words, and some of the others.
func (d *drawer) object(schema *apiextensionsv1.JSONSchemaProps, path string) map[string]any {
	fields := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if d.words[path+"."+name] == nil && !slices.Contains(schema.Required, name) && d.IntN(3) == 0 {
			continue
		}
		field := schema.Properties[name]
		if value := d.draw(&field, path+"."+name); value != nil {
			fields[name] = value
		}
	}
	return fields
}

// integer draws an integer between two others, often at the end of what is allowed, and at times
// beyond.
func (d *drawer) integer(least, most int64) int64 {
	switch d.IntN(80) {
	case 0:
		d.invalid = true
		return most + 1
	case 1:
		d.invalid = true
		return least - 1
	case 2, 3:
		return most
	case 4, 5, 6, 7:
		return least
	}
	return least + d.Int64N(min(100, most-least)+1)
}

// schemaOf returns the schema of the spec of a custom resource.
func schemaOf(plural string) *apiextensionsv1.JSONSchemaProps {
	for _, crd := range definitions() {
		if crd.Spec.Names.Plural == plural {
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			return &spec
		}
	}
	panic("no custom resource " + plural)
}
