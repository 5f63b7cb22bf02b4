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

// step is one step of a field path: a name, an index in brackets, or a key in brackets.
var step = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// LineOf returns the line of the file at which a field is, such as spec.pluginConfig[1].args, or
// the line of the innermost one around it that the document has. 0 where the text cannot tell.
func (d *Document) LineOf(path string) int {
	place, _ := d.find(path)
	if place == nil {
		return d.fixed
	}
	return d.start + place.Line - 1
}

// find finds a field: the node that its place is, that of the innermost field around it if it is
// not there, and its value, nil if it is not there.
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

// nodes parses the text for the lines in it, once. nil if that is not possible.
func (d *Document) nodes() *yaml.Node {
	if d.root == nil && d.fixed == 0 {
		var root yaml.Node
		// JSON may be indented with tabs. A blank in their place changes no line.
		if yaml.Unmarshal(bytes.ReplaceAll(d.text, []byte("\t"), []byte(" ")), &root) == nil && len(root.Content) > 0 {
			d.root = root.Content[0]
		}
	}
	return d.root
}

// Inner parses a text that a field holds, such as data[config.yaml] of a ConfigMap. Its documents
// are in the same file.
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
			inner.start += d.start + value.Line - 1 // the text begins in the line after the one that begins with |
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

// child finds a field or an element, and the node that is called its place: the name of a field,
// the element itself.
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
