// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// runCommand runs the command line without a cluster.
func runCommand(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), args,
		genericiooptions.IOStreams{In: strings.NewReader(""), Out: terminal.Plain(&stdout, 80), ErrOut: &stderr}, nil)
	return code, stdout.String(), stderr.String()
}

func TestTheHelpFitsTheTerminal(t *testing.T) {
	root := newRoot(&options{IOStreams: genericiooptions.NewTestIOStreamsDiscard()})
	commands := []string{"", "options"}
	for _, command := range root.Commands() {
		commands = append(commands, command.Name())
		for _, sub := range command.Commands() {
			commands = append(commands, command.Name()+" "+sub.Name())
		}
	}
	for _, name := range commands {
		code, out, errOut := runCommand(t, strings.Fields(name+" --help")...)
		if code != exitOK || out == "" {
			t.Errorf("%s: %d %s", name, code, errOut)
		}
		for line := range strings.Lines(out) {
			if len(line) > 81 {
				t.Errorf("%s: longer than 80: %s", name, line)
			}
		}
		if global := strings.Contains(out, "--kubeconfig="); global != (name == "options") && name != "" {
			t.Errorf("%s: global flags: %t\n%s", name, global, out)
		}
		if strings.Contains(out, `"kubectl-livesched`) {
			t.Errorf("%s: the name of the file:\n%s", name, out)
		}
	}
}

func TestUsageErrorsNameTheHelp(t *testing.T) {
	for _, args := range []string{"history", "capacity", "explain a b c", "version extra", "status --nosuch",
		"doctor a b"} {
		code, _, errOut := runCommand(t, strings.Fields(args)...)
		name, _, _ := strings.Cut(args, " ")
		if code != exitFailed || !strings.HasPrefix(errOut, "error: ") ||
			!strings.Contains(errOut, name+" --help' for usage.") {
			t.Errorf("%s: %d %s", args, code, errOut)
		}
	}
}

func TestUsageErrorsSayWhatIsMissing(t *testing.T) {
	for args, want := range map[string]string{
		"history":              "specify a profile or policy: NAME, profile/NAME or policy/NAME",
		"rollback a b c":       "specify one profile or policy, not a b c",
		"rollback profile/a b": "specify one profile or policy, not profile/a b",
		"diff":                 "specify a profile or policy (NAME, profile/NAME or policy/NAME), or files (-f)",
		"diff a -f b":          "specify either a profile or policy, or files (-f)",
		"diff -f a --from 1":   "--from and --to require the name of a profile or policy",
		"diff polcy/a": `unknown kind "polcy": must be profile (sprof) or policy (spol): did you mean ` +
			`policy`,
		"convert":                   "the flag --filename (-f) is missing: File or directory with",
		"replay":                    "the argument FILE is missing",
		"replay a b":                "too many arguments (a b): specify FILE",
		"replay a -f b --explain c": "the flags --explain and --filename exclude each other: use one of them",
		"validate -f a b":           `unexpected argument "b": the command takes no arguments, only flags`,
		"explain a b c":             "too many arguments (a b c): specify [pod/NAME | TYPE/NAME]\n",
		"version pod/x":             `unexpected argument "pod/x": the command takes no arguments, only flags`,
		"statis":                    `unknown command "statis"`,
		"completion bash x":         `unexpected argument "x"`,
		"rollout retri": `"retri" is not a command of rollout: must be abort, pause, promote, resume, retry or status: ` +
			`did you mean retry?`,
		"rollout promote":   "the argument (NAME | profile/NAME) is missing",
		"rollout abort a b": "too many arguments (a b): specify (NAME | profile/NAME)",
	} {
		code, _, errOut := runCommand(t, strings.Fields(args)...)
		if code != exitFailed || !strings.HasPrefix(errOut, "error: "+want) ||
			!strings.Contains(errOut, " --help' for usage.") {
			t.Errorf("%s: %d %s", args, code, errOut)
		}
	}
}

func TestConnectionFlagsAndLogging(t *testing.T) {
	t.Cleanup(func() {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		klog.InitFlags(flags)
		if err := flags.Parse([]string{"-v=0", "--logtostderr=true"}); err != nil {
			t.Error(err)
		}
	})
	var token, agent string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, agent = r.Header.Get("Authorization"), r.Header.Get("Accept-Encoding")
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	code, _, errOut := runCommand(t, "status", "--server", server.URL, "--insecure-skip-tls-verify", "--token=secret",
		"--disable-compression")
	if code != exitFailed || strings.Contains(errOut, "GET") {
		t.Errorf("without -v: %d %s", code, errOut)
	}
	code, _, errOut = runCommand(t, "status", "--server", server.URL, "--insecure-skip-tls-verify", "--token=secret",
		"--disable-compression", "-v", "6")
	if code != exitFailed || !strings.Contains(errOut, "GET") || !strings.Contains(errOut, server.URL) {
		t.Errorf("with -v: %d %s", code, errOut)
	}
	if token != "Bearer secret" || agent == "gzip" {
		t.Errorf("the request has the token %q and accepts %q", token, agent)
	}
	if code, _, errOut := runCommand(t, "status", "--cluster=none", "--user=none"); code != exitFailed ||
		!strings.Contains(errOut, "none") {
		t.Errorf("an unknown cluster: %d %s", code, errOut)
	}
}
