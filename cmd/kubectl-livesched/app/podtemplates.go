// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/internal/suggest"
)

// podTemplate is a Pod, or a pod template at any depth of an object.
type podTemplate struct {
	document *manifests.Document
	// path is the path of the template in the document, such as spec.template. It is empty for a
	// Pod.
	path    string
	content map[string]any
	// part names the template among the templates of its object, such as worker, if there are
	// several.
	part string
}

// podTemplatesIn returns the pod templates in documents. What looks like one but has no containers
// counts only if there is nothing better: other objects have templates, too.
func podTemplatesIn(documents []manifests.Document) []podTemplate {
	var found, likely []podTemplate
	for i := range documents {
		d := &documents[i]
		if d.Text("kind") == "Pod" && d.Text("apiVersion") == "v1" {
			found = append(found, podTemplate{document: d, content: d.Object})
			continue
		}
		s := templateSearch{document: d}
		s.visit("", "", "", d.Object)
		if len(s.found) > 1 {
			for j := range s.found {
				s.found[j].part = s.parts[j]
			}
		}
		found, likely = append(found, s.found...), append(likely, s.likely...)
	}
	if len(found) == 0 {
		return likely
	}
	return found
}

// templateSearch finds the pod templates of a document: the values of fields whose names end in
// "template" that have a pod's spec.
type templateSearch struct {
	document *manifests.Document
	found    []podTemplate
	parts    []string // of found
	likely   []podTemplate
}

// visit visits a value. part names what it belongs to: the nearest list item with a name, or the
// nearest field that is not just a step on the way to a template.
func (s *templateSearch) visit(path, field, part string, value any) {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			s.visit(fmt.Sprintf("%s[%d]", path, i), "", itemName(item, i), item)
		}
	case map[string]any:
		spec, _ := value["spec"].(map[string]any)
		isTemplate := strings.HasSuffix(strings.ToLower(field), "template") && spec != nil
		template := podTemplate{document: s.document, path: path, content: value}
		if _, hasContainers := spec["containers"].([]any); isTemplate && hasContainers {
			s.found, s.parts = append(s.found, template), append(s.parts, part)
			return
		}
		before := len(s.found) + len(s.likely)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			s.visit(strings.TrimPrefix(path+"."+name, "."), name, partOf(name, part), value[name])
		}
		if isTemplate && field == "template" && len(s.found)+len(s.likely) == before {
			s.likely = append(s.likely, template)
		}
	}
}

// itemName returns the name of an item of a list: replicated jobs, groups of workers and tasks have
// one.
func itemName(item any, index int) string {
	fields, _ := item.(map[string]any)
	for _, key := range []string{"name", "groupName"} {
		if name, _ := fields[key].(string); name != "" {
			return name
		}
	}
	return fmt.Sprint(index)
}

// partOf returns the name of a part of an object after a field: leaderTemplate is the part leader,
// headGroupSpec the part head, and template, spec and metadata are no parts.
func partOf(field, part string) string {
	name := field
	for _, suffix := range []string{"Template", "Spec", "Group", "Pod"} {
		name = strings.TrimSuffix(name, suffix)
	}
	if name == "" || slices.Contains([]string{"spec", "template", "job", "rayCluster", "pod"}, name) {
		return part
	}
	return name
}

// object returns the name of the object with the template, such as deployment/web.
func (t *podTemplate) object() string {
	return strings.ToLower(t.document.Text("kind")) + "/" + t.document.Text("metadata", "name")
}

// name returns the shortest name of the template: the name of its part or of its object.
func (t *podTemplate) name() string {
	if t.part != "" {
		return t.part
	}
	return t.object()
}

// fullName returns a name that includes the name of the object.
func (t *podTemplate) fullName() string {
	if t.part != "" {
		return t.object() + ":" + t.part
	}
	return t.object()
}

// namesOfTemplates returns names that tell templates apart.
func namesOfTemplates(templates []podTemplate) []string {
	short := make([]string, 0, len(templates))
	for i := range templates {
		short = append(short, templates[i].name())
	}
	if sorted := slices.Sorted(slices.Values(short)); len(slices.Compact(sorted)) == len(short) {
		return short
	}
	full := make([]string, 0, len(templates))
	for i := range templates {
		full = append(full, templates[i].fullName())
	}
	return full
}

// chooseTemplate returns the template of a name, or the only one if the name is empty.
func chooseTemplate(templates []podTemplate, name string) (*podTemplate, error) {
	names := namesOfTemplates(templates)
	switch {
	case len(templates) == 0:
		return nil, errors.New("no Pod, and no object with a pod template found")
	case name == "" && len(templates) == 1:
		return &templates[0], nil
	case name == "":
		return nil, fmt.Errorf("there are %d pod templates: choose one with --template, which is one of %s",
			len(templates), strings.Join(names, ", "))
	}
	var chosen []*podTemplate
	for i := range templates {
		t := &templates[i]
		if strings.EqualFold(name, t.name()) || strings.EqualFold(name, t.fullName()) || name == t.path {
			chosen = append(chosen, t)
		}
	}
	switch len(chosen) {
	case 0:
		return nil, fmt.Errorf("--template: there is no pod template %q%s The pod templates are %s",
			name, questionOrStop(suggest.DidYouMean(name, names)), strings.Join(names, ", "))
	case 1:
		return chosen[0], nil
	default:
		return nil, fmt.Errorf("--template: %d pod templates are named %q: use one of %s", len(chosen), name,
			strings.Join(names, ", "))
	}
}

// pod returns the pod of a template. If it is strict, a field that a pod does not have is an error:
// without it, another pod would be counted.
func (t *podTemplate) pod(strict bool) (*corev1.Pod, error) {
	content := maps.Clone(t.content)
	delete(content, "status")
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	pod, template := &corev1.Pod{}, &corev1.PodTemplateSpec{}
	var unknown []error
	if t.path == "" || content["kind"] == "Pod" {
		unknown, err = kjson.UnmarshalStrict(text, pod)
	} else {
		unknown, err = kjson.UnmarshalStrict(text, template)
		pod.ObjectMeta, pod.Spec = template.ObjectMeta, template.Spec
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", t.document.Place(), t.fullName(), err)
	}
	if strict {
		if err := strictErrors(t.document, t.path, unknown); err != nil {
			return nil, err
		}
	}
	if pod.Name == "" {
		pod.Name = t.document.Text("metadata", "name")
	}
	if pod.Namespace == "" {
		pod.Namespace = t.document.Text("metadata", "namespace")
	}
	return pod, nil
}

// strictErrors returns the errors of fields below a path of a document, with their lines.
func strictErrors(d *manifests.Document, path string, unknown []error) error {
	var errs []error
	for _, err := range unknown {
		line := d.Line
		var wrong kjson.FieldError
		if errors.As(err, &wrong) {
			field := strings.TrimPrefix(path+"."+wrong.FieldPath(), ".")
			wrong.SetFieldPath(field)
			line = max(line, d.LineOf(field))
		}
		errs = append(errs, fmt.Errorf("%s:%d: %w", d.File, line, err))
	}
	return errors.Join(errs...)
}
