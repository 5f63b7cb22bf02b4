// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Errors of cobra, which has no types for them.
var (
	aboutArguments = regexp.MustCompile(`^(accepts|requires) .*arg\(s\)|^unknown command`)
	aboutRequired  = regexp.MustCompile(`^required flag\(s\) .* not set$`)
	aboutOneOf     = regexp.MustCompile(`^at least one of the flags in the group \[(.*)\] is required$`)
	aboutExclusive = regexp.MustCompile(
		`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
)

// flagsInUse matches the flags at the end of a usage line.
var flagsInUse = regexp.MustCompile(`(^|\s+)[\[(]?-.*$`)

// argumentError replaces cobra's errors about the arguments of a command by clearer ones.
// Others stay as they are.
func argumentError(command *cobra.Command, args []string, err error) error {
	if err == nil || !aboutArguments.MatchString(err.Error()) {
		return err
	}
	_, wanted, _ := strings.Cut(command.Use, " ")
	wanted = flagsInUse.ReplaceAllString(wanted, "")
	switch {
	case wanted == "":
		return fmt.Errorf("unexpected argument %q: the command takes no arguments, only flags", args[0])
	case len(args) == 0:
		return fmt.Errorf("the argument %s is missing", wanted)
	}
	return fmt.Errorf("too many arguments (%s): specify %s", strings.Join(args, " "), wanted)
}

// usageError replaces cobra's errors about flags that are missing or exclude each other. Other
// errors stay as they are.
func usageError(command *cobra.Command, err error) error {
	switch {
	case err == nil:
		return nil
	case aboutRequired.MatchString(err.Error()):
		return withHint(command, missingFlags(command))
	case strings.HasPrefix(err.Error(), "unknown command") && !strings.Contains(err.Error(), "--help"):
		return withHint(command, errors.New(strings.TrimSpace(err.Error())))
	}
	if match := aboutOneOf.FindStringSubmatch(err.Error()); match != nil {
		return withHint(command, fmt.Errorf("specify --%s", strings.ReplaceAll(match[1], " ", " or --")))
	}
	if match := aboutExclusive.FindStringSubmatch(err.Error()); match != nil {
		return withHint(command,
			fmt.Errorf("the flags --%s exclude each other: use one of them",
				strings.ReplaceAll(match[1], " ", " and --")))
	}
	return err
}

// missingFlags names the required flags that are not set.
func missingFlags(command *cobra.Command) error {
	var missing []error
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if len(flag.Annotations[cobra.BashCompOneRequiredFlag]) == 0 || flag.Changed {
			return
		}
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name += " (-" + flag.Shorthand + ")"
		}
		missing = append(missing, fmt.Errorf("the flag %s is missing: %s", name, strings.TrimSuffix(flag.Usage, ".")))
	})
	return errors.Join(missing...)
}
