// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package print writes API objects and other answers as text for people, or as data. It needs no
// cluster.
package print

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/history"
)

// The values of -o. The empty value selects the default format of a command, which is for users.
const (
	JSON = "json"
	YAML = "yaml"
	Wide = "wide"
	Name = "name"
	// GitHub is the format of GitHub Actions.
	GitHub = "github"
)

// IsData returns whether an output format is for programs.
func IsData(format string) bool { return format != "" && format != Wide }

// IsTemplate returns whether an output format has a template.
func IsTemplate(format string) bool { return strings.Contains(format, "=") }

// TemplatePrinter returns the printer of a format with a template, such as jsonpath={.verdict}, nil
// for other formats.
func TemplatePrinter(format string) (printers.ResourcePrinter, error) {
	printer, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, nil
	}
	return printer, err
}

// As writes a value in a format for programs.
func As(w io.Writer, format string, value any) error {
	switch printer, err := TemplatePrinter(format); {
	case err != nil:
		return err
	case printer != nil:
		object, err := templateData(value)
		if err != nil {
			return err
		}
		return printer.PrintObj(object, w)
	case format == YAML:
		text, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// List returns a list of objects of any kinds, as kubectl prints it.
func List[Object any](objects []Object) any {
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
}

// templateData returns a value for templates, with all fields that its JSON has. Templates find the
// elements of a list in the field items, as in kubectl.
func templateData(value any) (runtime.Object, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var data any
	if err := utiljson.Unmarshal(text, &data); err != nil { // with integers as integers
		return nil, fmt.Errorf("reading the answer of livesched: %w", err)
	}
	if list, ok := data.([]any); ok {
		data = map[string]any{"items": list}
	}
	fields, ok := data.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a template needs an object or a list, not %s", text)
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// Table writes a table as kubectl does, with the last column wrapped on a terminal.
func Table(w io.Writer, header []string, rows [][]string) error {
	return terminal.Of(w).Table(header, rows)
}

// Line writes a text, wrapped between words.
func Line(w io.Writer, text string) { terminal.Of(w).Line(text) }

// writeItem writes a text below a headline.
func writeItem(w io.Writer, text string) { terminal.Of(w).Paragraph("  ", "  ", text) }

// Objects prints objects as kubectl does: with -o name their names, and otherwise one object or a
// list. It leaves out managed fields.
func Objects(w io.Writer, format string, objects []client.Object) error {
	var printed []client.Object
	for _, object := range objects {
		kind := history.KindProfile
		if _, isPolicy := object.(*v1alpha1.SchedulingPolicy); isPolicy {
			kind = history.KindPolicy
		}
		if format == Name {
			_, _ = fmt.Fprintf(w, "%s.%s/%s\n", strings.ToLower(kind), v1alpha1.GroupVersion.Group, object.GetName())
			continue
		}
		object = object.DeepCopyObject().(client.Object)
		object.SetManagedFields(nil)
		object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		printed = append(printed, object)
	}
	switch {
	case format == Name:
		return nil
	case len(printed) == 1:
		return As(w, format, printed[0])
	}
	return As(w, format, List(printed))
}
