// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// step matches one step of a field path: a name, or an index or key in brackets.
var step = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// LineOf returns the line of a field in the file, such as spec.pluginConfig[1].args. For a field
// that does not exist it returns the line of the innermost existing field around it. It returns 0
// if the text does not determine the line.
func (d *Document) LineOf(path string) int {
	place, _ := d.find(path)
	if place == nil {
		return d.fixed
	}
	return d.start + place.Line - 1
}

// find returns the node at the place of a field, and the value of the field. If the field does not
// exist, it returns the place of the innermost existing field around it, and a nil value.
func (d *Document) find(path string) (place, value *yaml.Node) {
	root := d.nodes()
	if root == nil {
		return nil, nil
	}
	if d.path != "" {
		path = d.path + "." + path
	}
	place, value = root, root
	for _, name := range step.FindAllString(path, -1) {
		key, next := child(value, name)
		if next == nil {
			return place, nil
		}
		place, value = key, next
	}
	return place, value
}

// nodes parses the text into nodes with lines, once. It returns nil if that fails.
func (d *Document) nodes() *yaml.Node {
	if d.root == nil && d.fixed == 0 {
		var root yaml.Node
		// JSON may be indented with tabs. Replacing them by spaces changes no line.
		if yaml.Unmarshal(bytes.ReplaceAll(d.text, []byte("\t"), []byte(" ")), &root) == nil && len(root.Content) > 0 {
			d.root = root.Content[0]
		}
	}
	return d.root
}

// Inner parses the text in a field, such as data[config.yaml] of a ConfigMap. The lines of its
// documents are lines of the same file.
func (d *Document) Inner(path, text string) ([]Document, error) {
	documents, err := Parse(d.File, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	place, value := d.find(path)
	for i := range documents {
		inner := &documents[i]
		inner.Number = d.Number
		if value != nil && value.Style&yaml.LiteralStyle != 0 {
			inner.start += d.start + value.Line - 1 // the text begins in the line after the |
			inner.Line += d.start + value.Line - 1
			continue
		}
		inner.fixed = d.Line
		if place != nil {
			inner.fixed = d.start + place.Line - 1
		}
		inner.Line = inner.fixed
	}
	return documents, nil
}

// child returns a field of an object or an element of a list: its place, which is the name of the
// field or the element itself, and its value.
func child(node *yaml.Node, name string) (place, value *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.SequenceNode:
		if index, err := strconv.Atoi(trimBrackets(name)); err == nil && index >= 0 && index < len(node.Content) {
			return node.Content[index], node.Content[index]
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == trimBrackets(name) {
				return node.Content[i], node.Content[i+1]
			}
		}
	}
	return nil, nil
}

func trimBrackets(name string) string {
	if len(name) >= 2 && name[0] == '[' {
		return name[1 : len(name)-1]
	}
	return name
}
