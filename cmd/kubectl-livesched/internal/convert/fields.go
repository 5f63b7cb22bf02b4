// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fields reads an object field by field and keeps account of what was read, so that the rest can be
// remarked on. A field of the wrong type is remarked on and taken for absent; so is null, without a
// word.
type fields struct {
	c      *converter
	path   *field.Path
	values map[string]any
	// fold finds fields whatever their case: that is how JSON was read before Kubernetes 1.20.
	fold bool
	read sets.Set[string]
}

func (c *converter) fields(path *field.Path, values map[string]any, fold bool) *fields {
	return &fields{c: c, path: path, values: values, fold: fold, read: sets.New[string]()}
}

func (f *fields) at(name string) *field.Path { return child(f.path, name) }

func child(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}

// take returns the value of a field, and the name that it goes by; nil if it is absent.
func (f *fields) take(name string) (any, string) {
	if value, ok := f.values[name]; ok || !f.fold {
		f.read.Insert(name)
		return value, name
	}
	for _, key := range sets.List(sets.KeySet(f.values)) {
		if strings.EqualFold(key, name) && !f.read.Has(key) {
			f.read.Insert(key)
			return f.values[key], key
		}
	}
	return nil, name
}

// mistyped remarks on a value of the wrong type.
func (f *fields) mistyped(name, want string, value any) {
	f.c.remark(Loss, f.at(name), "must be %s, is %s: left out", want, kindOf(value))
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	}
	return "an object"
}

func (f *fields) text(name string) string {
	value, name := f.take(name)
	text, ok := value.(string)
	if !ok && value != nil {
		f.mistyped(name, "a string", value)
	}
	return text
}

// flag is false where the field is absent.
func (f *fields) flag(name string) bool {
	value, name := f.take(name)
	flag, ok := value.(bool)
	if !ok && value != nil {
		f.mistyped(name, "true or false", value)
	}
	return flag
}

// integer is nil where the field is absent.
func (f *fields) integer(name string) *int64 {
	value, name := f.take(name)
	switch value := value.(type) {
	case nil:
		return nil
	case int64:
		return &value
	case float64:
		if whole := int64(value); float64(whole) == value && math.Abs(value) < 1<<53 {
			return &whole
		}
	}
	f.mistyped(name, "a whole number", value)
	return nil
}

// integer32 is integer for a field of 32 bits.
func (f *fields) integer32(name string) *int32 {
	value := f.integer(name)
	if value == nil {
		return nil
	}
	if *value < math.MinInt32 || *value > math.MaxInt32 {
		f.c.remark(Loss, f.at(name), "must be a number of 32 bits, is %d: left out", *value)
		return nil
	}
	short := int32(*value)
	return &short
}

// object is nil where the field is absent.
func (f *fields) object(name string) *fields {
	value, name := f.take(name)
	values, ok := value.(map[string]any)
	if !ok {
		if value != nil {
			f.mistyped(name, "an object", value)
		}
		return nil
	}
	return f.c.fields(f.at(name), values, f.fold)
}

// list says whether the field is there: an empty list may mean something else than none.
func (f *fields) list(name string) (values []any, path *field.Path, exists bool) {
	value, name := f.take(name)
	values, ok := value.([]any)
	if !ok && value != nil {
		f.mistyped(name, "a list", value)
	}
	return values, f.at(name), ok
}

// objects is the list of those elements of a list field that are objects.
func (f *fields) objects(name string) (elements []*fields, exists bool) {
	values, path, exists := f.list(name)
	for i, value := range values {
		object, ok := value.(map[string]any)
		if !ok {
			f.c.remark(Loss, path.Index(i), "must be an object, is %s: left out", kindOf(value))
			continue
		}
		elements = append(elements, f.c.fields(path.Index(i), object, f.fold))
	}
	return elements, exists
}

// texts is the list of those elements of a list field that are strings.
func (f *fields) texts(name string) []string {
	values, path, _ := f.list(name)
	var texts []string
	for i, value := range values {
		text, ok := value.(string)
		if !ok {
			f.c.remark(Loss, path.Index(i), "must be a string, is %s: left out", kindOf(value))
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// rest remarks on the fields that were not read.
func (f *fields) rest(severity Severity, detail string) {
	for _, name := range sets.List(sets.KeySet(f.values).Difference(f.read)) {
		f.c.remark(severity, f.at(name), "%s", detail)
	}
}

// unknownField is the remark on a field that no version of the API has.
const unknownField = "no field that kube-scheduler knows: left out"

func (f *fields) unknown() { f.rest(Loss, unknownField) }

func shown(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return fmt.Sprint(value)
}
