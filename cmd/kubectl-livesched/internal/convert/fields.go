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

// fields reads an object field by field and records which fields it has read, for remarks on the
// rest. A field of the wrong type gets a remark and counts as absent. null counts as absent without
// a remark.
type fields struct {
	c      *converter
	path   *field.Path
	values map[string]any
	// fold ignores the case of field names, as Kubernetes before 1.20 did.
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

// take returns the value of a field, nil if it is absent, and the name of the field in the object.
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

// mistyped adds a remark on a value of the wrong type.
func (f *fields) mistyped(name, want string, value any) {
	f.c.remark(Loss, f.at(name), "must be %s, not %s: left out", want, kindOf(value))
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

// read returns the value of a field and the name of the field in the object. A value of another
// type gets a remark and counts as absent.
func read[T any](f *fields, name, want string) (value T, key string, exists bool) {
	found, key := f.take(name)
	value, exists = found.(T)
	if !exists && found != nil {
		f.mistyped(key, want, found)
	}
	return value, key, exists
}

func (f *fields) text(name string) string {
	text, _, _ := read[string](f, name, "a string")
	return text
}

// flag is false if the field is absent.
func (f *fields) flag(name string) bool {
	flag, _, _ := read[bool](f, name, "true or false")
	return flag
}

// integer is nil if the field is absent.
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

// integer32 is integer for a 32-bit field.
func (f *fields) integer32(name string) *int32 {
	value := f.integer(name)
	if value == nil {
		return nil
	}
	if *value < math.MinInt32 || *value > math.MaxInt32 {
		f.c.remark(Loss, f.at(name), "must be a 32-bit number, not %d: left out", *value)
		return nil
	}
	short := int32(*value)
	return &short
}

// object is nil if the field is absent.
func (f *fields) object(name string) *fields {
	values, key, exists := read[map[string]any](f, name, "an object")
	if !exists {
		return nil
	}
	return f.c.fields(f.at(key), values, f.fold)
}

// each visits the elements of a list field that have a type. It reports whether the field exists:
// an empty list may differ in meaning from an absent one.
func each[T any](f *fields, name, want string, visit func(T, *field.Path)) (exists bool) {
	values, key, exists := read[[]any](f, name, "a list")
	for i, value := range values {
		path := f.at(key).Index(i)
		if element, ok := value.(T); ok {
			visit(element, path)
		} else {
			f.c.remark(Loss, path, "must be %s, not %s: left out", want, kindOf(value))
		}
	}
	return exists
}

// objects returns the elements of a list field that are objects.
func (f *fields) objects(name string) (elements []*fields, exists bool) {
	exists = each(f, name, "an object", func(object map[string]any, path *field.Path) {
		elements = append(elements, f.c.fields(path, object, f.fold))
	})
	return elements, exists
}

// texts returns the elements of a list field that are strings.
func (f *fields) texts(name string) (texts []string) {
	each(f, name, "a string", func(text string, _ *field.Path) { texts = append(texts, text) })
	return texts
}

// rest adds a remark on each field that was not read.
func (f *fields) rest(severity Severity, detail string) {
	for _, name := range sets.List(sets.KeySet(f.values).Difference(f.read)) {
		f.c.remark(severity, f.at(name), "%s", detail)
	}
}

// unknownField is the remark on a field that the version of the API does not have.
const unknownField = "not a field of kube-scheduler's API: left out"

func (f *fields) unknown() { f.rest(Loss, unknownField) }

func shown(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return fmt.Sprint(value)
}
