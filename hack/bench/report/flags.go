// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// outFlag names the file of the report.
const outFlag = "out"

// AddFlags adds the flag that names the report's file to the command of a benchmark.
func AddFlags(cmd *cobra.Command) {
	cmd.Flags().String(outFlag, "bin/benchmarks/"+cmd.Name()+".json", "where the figures go")
}

// RunE returns a function that runs a benchmark as its command's RunE. It prints the tables of the
// measured rows, also after an error.
func RunE(
	validate func() error, run func(context.Context, *Report) error, tables func(*Report) []Table,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := validate(); err != nil {
			return err
		}
		r, err := begin(cmd)
		if err != nil {
			return err
		}
		return errors.Join(run(cmd.Context(), r), printAll(tables(r)))
	}
}

// begin begins the report of the benchmark that a command runs. The command's flags are the
// report's parameters.
func begin(cmd *cobra.Command) (*Report, error) {
	parameters := map[string]string{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != outFlag && f.Name != "help" {
			parameters[f.Name] = strings.Trim(f.Value.String(), "[]")
		}
	})
	file, err := cmd.Flags().GetString(outFlag)
	if err != nil {
		return nil, err
	}
	return New(cmd.Name(), file, parameters)
}

// printAll prints tables, each after an empty line.
func printAll(tables []Table) error {
	for i := range tables {
		fmt.Println()
		if err := tables[i].Text(os.Stdout); err != nil {
			return err
		}
	}
	return nil
}

// OneOf returns an error unless the values of a flag are one or more of the known ones.
func OneOf(flag string, values, known []string) error {
	for _, value := range values {
		if !slices.Contains(known, value) {
			return fmt.Errorf("--%s %s: there are %s", flag, value, strings.Join(known, ", "))
		}
	}
	if len(values) == 0 {
		return fmt.Errorf("--%s is empty: there are %s", flag, strings.Join(known, ", "))
	}
	return nil
}

// Positive returns an error if a number of a flag is not above 0.
func Positive(flag string, values ...int) error {
	for _, value := range values {
		if value < 1 {
			return fmt.Errorf("--%s %d: it must be above 0", flag, value)
		}
	}
	return nil
}
