// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// The values of -o. The empty value selects the default format of a command, which is for users.
const (
	formatJSON = "json"
	formatYAML = "yaml"
	formatWide = "wide"
	formatName = "name"
)

// isData returns whether an output format is for programs.
func isData(format string) bool { return format != "" && format != formatWide }

// addOutputFlag adds -o. With JSON come kubectl's templates.
func addOutputFlag(command *cobra.Command, target *string, formats ...string) {
	command.Flags().StringVarP(target, "output", "o", "",
		"Output format: "+strings.Join(formats, ", ")+", or kubectl's jsonpath=..., jsonpath-as-json=... or go-template=.... Default: text.")
	command.PreRunE = func(*cobra.Command, []string) error {
		if *target == "" || slices.Contains(formats, *target) {
			return nil
		}
		switch printer, err := templatePrinter(*target); {
		case err != nil:
			return fmt.Errorf("--output: %w", err)
		case printer == nil:
			return fmt.Errorf("--output: must be %s, jsonpath=TEMPLATE, jsonpath-as-json=TEMPLATE or go-template=TEMPLATE, not %q",
				strings.Join(formats, ", "), *target)
		}
		return nil
	}
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		append(slices.Clone(formats), "jsonpath=", "jsonpath-as-json=", "go-template="), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// templatePrinter returns the printer of a format with a template, such as jsonpath={.verdict}, nil
// for other formats.
func templatePrinter(format string) (printers.ResourcePrinter, error) {
	printer, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, nil
	}
	return printer, err
}

// writeAs writes a value in a format of addOutputFlag.
func writeAs(w io.Writer, format string, value any) error {
	switch printer, err := templatePrinter(format); {
	case err != nil:
		return err
	case printer != nil:
		object, err := templateData(value)
		if err != nil {
			return err
		}
		return printer.PrintObj(object, w)
	case format == formatYAML:
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

// writeAnswer writes an answer of livesched with all fields, also those that this plugin does not
// know.
func writeAnswer(w io.Writer, format string, text []byte) error {
	if format == formatYAML {
		text, err := yaml.JSONToYAML(text)
		if err != nil {
			return fmt.Errorf("reading the answer of livesched: %w", err)
		}
		_, err = w.Write(text)
		return err
	}
	return writeAs(w, format, json.RawMessage(text))
}

// writeTable writes a table as kubectl does, with the last column wrapped on a terminal.
func writeTable(w io.Writer, header []string, rows [][]string) error {
	return terminal.Of(w).Table(header, rows)
}

// writeLine writes a text, wrapped between words.
func writeLine(w io.Writer, text string) { terminal.Of(w).Line(text) }

// plural returns a count with its noun, such as "1 error" or "2 errors".
func plural(count int, one string) string {
	switch stem, endsInY := strings.CutSuffix(one, "y"); {
	case count == 1:
		return "1 " + one
	case endsInY:
		one = stem + "ies"
	case strings.HasSuffix(one, "s"):
		one += "es"
	default:
		one += "s"
	}
	return fmt.Sprintf("%d %s", count, one)
}
