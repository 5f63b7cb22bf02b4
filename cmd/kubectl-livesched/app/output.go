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
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// The values of -o. The empty value selects the default format of a command, which is for users.
const (
	formatJSON = "json"
	formatYAML = "yaml"
	formatWide = "wide"
)

// addOutputFlag adds -o.
func addOutputFlag(command *cobra.Command, target *string, formats ...string) {
	command.Flags().StringVarP(target, "output", "o", "", "Output format: "+strings.Join(formats, ", ")+". Default: text.")
	command.PreRunE = func(*cobra.Command, []string) error {
		if *target != "" && !slices.Contains(formats, *target) {
			return fmt.Errorf("--output: must be %s, not %q", strings.Join(formats, " or "), *target)
		}
		return nil
	}
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// writeAs writes a value as JSON or YAML.
func writeAs(w io.Writer, format string, value any) error {
	if format == formatYAML {
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
	return writeAs(w, formatJSON, json.RawMessage(text))
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
