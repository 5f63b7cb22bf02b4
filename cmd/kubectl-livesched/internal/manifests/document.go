// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads YAML and JSON files and keeps the line of each object and field.
package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Document is one object of a file. It is not safe for concurrent use.
type Document struct {
	// File is the path of the file, or "-" for standard input.
	File string
	// Number of the document in its file, from 1.
	Number int
	// Line of the file at which the document begins, from 1.
	Line int
	// Object is the content, with numbers as int64 or float64.
	Object map[string]any

	text  []byte // of the whole document, which may be a List that contains the object
	start int    // line of the file at which text begins
	path  string // of the object in text, such as items[2]; empty for the document itself
	fixed int    // line of all fields, if the lines of text are not lines of the file; 0 otherwise

	root *yaml3.Node // of text, parsed on first use
}

// Place returns the location of the document in a readable form.
func (d *Document) Place() string { return Place(d.File, d.Line, d.Number) }

// Place returns the location of the document with a number in a readable form.
func Place(file string, line, number int) string {
	place := fmt.Sprintf("%s:%d", file, line)
	if number > 1 {
		place += fmt.Sprintf(" (document %d)", number)
	}
	return place
}

// Text returns a string field of the object, such as kind. It is empty if there is none.
func (d *Document) Text(fields ...string) string {
	var value any = d.Object
	for _, name := range fields {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	text, _ := value.(string)
	return text
}

// Parse returns the documents in the text of a file. It omits documents without content and
// replaces Lists by their items.
func Parse(file string, text []byte) ([]Document, error) {
	var documents []Document
	for i, part := range split(text) {
		objects, err := decode(part.text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: document %d: %w", file, part.line, i+1, err)
		}
		for _, object := range objects {
			documents = append(documents,
				items(Document{File: file, Number: i + 1, Line: part.line, Object: object, text: part.text,
					start: part.line})...)
		}
	}
	return documents, nil
}

// part is the text of a document.
type part struct {
	line int
	text []byte
}

// split splits a text at the lines that begin with ---, as kubectl does.
func split(text []byte) []part {
	var parts []part
	current := part{line: 1}
	add := func() {
		if content, skipped := trimmed(current.text); len(content) > 0 {
			parts = append(parts, part{line: current.line + skipped, text: content})
		}
	}
	for number, line := range bytes.SplitAfter(text, []byte("\n")) {
		if bytes.HasPrefix(line, []byte("---")) {
			add()
			current = part{line: number + 2}
			continue
		}
		current.text = append(current.text, line...)
	}
	add()
	return parts
}

// trimmed removes the blank lines and comments at the beginning of a document, and returns their
// number. The content is empty if the document has nothing else.
func trimmed(text []byte) (content []byte, lines int) {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			return text, lines
		}
		text, lines = rest, lines+1
	}
	return nil, lines
}

// decode decodes a document: YAML, or a sequence of JSON objects.
func decode(text []byte) ([]map[string]any, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		objects, err := decodeJSON(text)
		if duplicate := (*duplicateError)(nil); err == nil || errors.As(err, &duplicate) {
			return objects, err
		}
	}
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return nil, templateHint(text, err)
	}
	if value == nil {
		return nil, nil
	}
	if _, isObject := value.(map[string]any); !isObject {
		return nil, templateHint(text, errors.New("must be an object"))
	}
	converted, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	return decodeJSON(converted)
}

func decodeJSON(text []byte) ([]map[string]any, error) {
	var objects []map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		var object map[string]any
		duplicates, err := kjson.UnmarshalStrict(raw, &object)
		if err != nil {
			return nil, err
		}
		if len(duplicates) > 0 {
			return nil, &duplicateError{errors.Join(duplicates...)}
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
}

// duplicateError means that an object in JSON has a field twice. One of the values would be lost.
type duplicateError struct{ error }

// templateHint adds the likely cause to the error of a text that looks like a template.
func templateHint(text []byte, err error) error {
	if bytes.Contains(text, []byte("{{")) {
		return fmt.Errorf("%w (this looks like a template: render it first, for instance with `helm template`)", err)
	}
	return err
}

// items returns the items of a List, or the document itself if it is not a List.
func items(d Document) []Document {
	list, ok := d.Object["items"].([]any)
	if !ok || !strings.HasSuffix(d.Text("kind"), "List") {
		return []Document{d}
	}
	var documents []Document
	for i, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			continue
		}
		one := d
		one.Object, one.path = object, fmt.Sprintf("items[%d]", i)
		if line := one.LineOf(""); line > 0 {
			one.Line = line
		}
		documents = append(documents, one)
	}
	return documents
}
