// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// logTo returns the log that the flags configure, which writes to text.
func logTo(t *testing.T, text *bytes.Buffer, args ...string) *logging {
	t.Helper()
	l := &logging{}
	l.zap.DestWriter = text
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	l.addFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheLogDropsNoLine(t *testing.T) {
	var text bytes.Buffer
	logger := logTo(t, &text).logger()
	for n := range 5000 {
		logger.Info("Node", "number", n)
	}
	if got := strings.Count(text.String(), "\n"); got != 5000 {
		t.Errorf("got %d of 5000 lines", got)
	}
}

func TestTheLastFlagOfTheLogCounts(t *testing.T) {
	for _, test := range []struct {
		args      string
		verbosity int
		text      bool
	}{
		{"", 0, false},
		{"-v=4", 4, false},
		{"-v 2 --logging-format=text", 2, true},
		{"--zap-log-level=3 --zap-encoder=console", 3, true},
		{"--zap-log-level=3 -v=0", 0, false},
		{"-v=5 --zap-log-level=debug", 1, false},
		{"--zap-devel", 1, true},
		{"--zap-devel --logging-format=json", 1, false},
		{"--zap-log-level=error", 0, false},
	} {
		var text bytes.Buffer
		logger := logTo(t, &text, strings.Fields(test.args)...).logger()
		if got := verbosityOf(logger); got != test.verbosity {
			t.Errorf("%s: verbosity %d, want %d", test.args, got, test.verbosity)
		}
		logger.Error(nil, "hello")
		if got := !strings.HasPrefix(text.String(), "{"); got != test.text {
			t.Errorf("%s: wrote %s", test.args, &text)
		}
		if quiet := !logger.V(0).Enabled(); quiet != strings.HasSuffix(test.args, "error") {
			t.Errorf("%s: quiet is %v", test.args, quiet)
		}
	}
}

// Alone is an environment variable that makes the test binary set no logger of its own.
const Alone = "LIVESCHED_TEST_ALONE"

// TestEverythingWritesToTheSameLog runs in a process of its own: controller-runtime's logger is set
// once for all in a process.
func TestEverythingWritesToTheSameLog(t *testing.T) {
	if os.Getenv(Alone) == "" {
		test := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
		test.Env = append(os.Environ(), Alone+"=1")
		if output, err := test.CombinedOutput(); err != nil || !bytes.Contains(output, []byte("--- PASS: "+t.Name())) {
			t.Errorf("%v\n%s", err, output)
		}
		return
	}
	var text bytes.Buffer
	logger := logTo(t, &text, "-v=2").apply()
	logger.Info("one")
	klog.V(2).InfoS("two")
	klog.V(3).InfoS("not written")
	klog.Background().V(2).Info("three")
	klog.FromContext(t.Context()).WithName("named").V(2).Info("four")
	klog.Background().V(3).Info("not written")
	ctrl.Log.V(2).Info("five")
	slog.Info("six")
	log.Print("seven")
	klog.Warning("eight")
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	want := []string{"one", "two", "three", "four", "five", "six", "seven", "eight"}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines:\n%s", len(lines), &text)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, `{"level":"`) || !strings.Contains(line, `"msg":"`+want[i]+`"`) {
			t.Errorf("line %d is %s, want %s", i, line, want[i])
		}
	}
}
