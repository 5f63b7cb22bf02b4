// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "github.com/livesched/livesched/cmd/kubectl-livesched/app"
	"github.com/livesched/livesched/cmd/livesched/app"
)

func TestCommandsInTheDocumentationExist(t *testing.T) {
	build := makefile(t)
	flags := liveschedFlags()
	flags.Bool("help", false, "which the flag set knows by itself")
	checked := 0
	for _, p := range pages(t) {
		for _, words := range p.commands() {
			var unknown string
			switch name := filepath.Base(words[0]); {
			case name == "make":
				unknown = build.unknown(words[1:])
			case name == "kubectl" && len(words) > 1 && words[1] == "livesched":
				unknown = unknownToPlugin(t, words[2:])
			case name == "kubectl-livesched":
				unknown = unknownToPlugin(t, words[1:])
			case name == "livesched":
				for _, flag := range flagsOf(words) {
					if flags.Lookup(flag) == nil && (len(flag) != 1 || flags.ShorthandLookup(flag) == nil) {
						unknown = "flag --" + flag
					}
				}
			}
			if unknown == "" {
				unknown = missingFile(words)
			}
			if unknown != "" {
				t.Errorf("%s: %q: there is no %s", p.File, strings.Join(words, " "), unknown)
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("found only %d commands", checked)
	}
}

// targets are the targets and the variables of the Makefile.
type targets struct{ rules, variables sets.Set[string] }

func makefile(t *testing.T) targets {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := targets{sets.New[string](), sets.New[string]()}
	for _, match := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllSubmatch(content, -1) {
		found.rules.Insert(string(match[1]))
	}
	for _, match := range regexp.MustCompile(`(?m)^([A-Z_]+) \?=`).FindAllSubmatch(content, -1) {
		found.variables.Insert(string(match[1]))
	}
	return found
}

func (m targets) unknown(words []string) string {
	for _, word := range words {
		variable, _, set := strings.Cut(word, "=")
		switch {
		case set && !m.variables.Has(variable):
			return "variable " + variable + " of the Makefile"
		case !set && !strings.HasPrefix(word, "-") && word != "..." && !m.rules.Has(strings.TrimSuffix(word, "-...")) &&
			!strings.HasSuffix(word, "-..."):
			return "target " + word + " of the Makefile"
		}
	}
	return ""
}

func liveschedFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("livesched", pflag.ContinueOnError)
	app.NewOptions().AddFlags(flags)
	return flags
}

var flagInHelp = regexp.MustCompile(`(?m)^ +(?:-(\w), )?--([\w-]+)`)

// unknownToPlugin returns the part of a command line of kubectl livesched that does not exist. It
// asks the command for its help, as a user would.
func unknownToPlugin(t *testing.T, words []string) string {
	t.Helper()
	if len(words) > 0 && strings.HasPrefix(words[0], "__") {
		return "" // for completion
	}
	var arguments []string
	for _, word := range words {
		if strings.HasPrefix(word, "-") || strings.ContainsAny(word, "<>.…=/") || len(arguments) == 2 {
			break
		}
		arguments = append(arguments, word)
	}
	// The second word may be an argument, as in "status binpack".
	help, ok := pluginPrints(t, append(arguments, "--help")...)
	if !ok {
		return "command " + strings.Join(arguments, " ")
	}
	// To a command that does not exist, the help is that of the root.
	_, usage, _ := strings.Cut(help, "Usage:\n")
	usage, _, _ = strings.Cut(usage, "\n")
	if len(arguments) > 0 && !strings.Contains(usage+" ", " "+arguments[0]+" ") {
		return "command " + arguments[0]
	}
	global, _ := pluginPrints(t, "options")
	flags := sets.New("help")
	for _, match := range flagInHelp.FindAllStringSubmatch(help+global, -1) {
		flags.Insert(match[1], match[2])
	}
	for _, flag := range flagsOf(words) {
		if !flags.Has(flag) {
			return "flag " + flag
		}
	}
	return ""
}

// pluginPrints returns the output of a command of the plugin, and whether it succeeded.
func pluginPrints(t *testing.T, args ...string) (out string, ok bool) {
	t.Helper()
	var text bytes.Buffer
	code := plugin.Run(t.Context(), args,
		genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &text, ErrOut: &bytes.Buffer{}}, nil)
	return text.String(), code == 0
}

// flagsOf returns the names of the flags among words.
func flagsOf(words []string) []string {
	var flags []string
	for _, word := range words {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if strings.HasPrefix(word, "-") && name != "" && regexp.MustCompile(`^[a-z-]+$`).MatchString(name) {
			flags = append(flags, name)
		}
	}
	return flags
}

var ownFile = regexp.MustCompile(`^(?:\./)?((?:api|charts|cmd|config|controllers|docs|hack|internal|test)/[\w./-]+)$`)

// missingFile returns the first file or directory of this repository that a command names and that
// does not exist.
func missingFile(words []string) string {
	for _, word := range words {
		match := ownFile.FindStringSubmatch(word)
		if match == nil {
			continue
		}
		name, _, _ := strings.Cut(match[1], "...")
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			return "file " + name
		}
	}
	return ""
}

func TestWhatDoesNotExistIsFound(t *testing.T) {
	build := makefile(t)
	for _, test := range []struct{ got, want string }{
		{build.unknown([]string{"test", "RACE=1"}), ""},
		{build.unknown([]string{"tests"}), "target tests of the Makefile"},
		{build.unknown([]string{"test", "RACES=1"}), "variable RACES of the Makefile"},
		{unknownToPlugin(t, []string{"validate", "-f", "x.yaml", "--against-cluster"}), ""},
		{unknownToPlugin(t, []string{"explain", "pod/x", "-n", "y"}), ""},
		{unknownToPlugin(t, []string{"check"}), "command check"},
		{unknownToPlugin(t, []string{"status", "--context=x"}), ""},
		{unknownToPlugin(t, []string{"validate", "--clusters"}), "flag clusters"},
		{missingFile([]string{"kubectl", "apply", "-k", "config/default"}), ""},
		{missingFile([]string{"kubectl", "apply", "-k", "config/nothing"}), "file config/nothing"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
