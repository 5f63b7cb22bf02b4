// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRun runs shell scripts in place of program replay.
func TestRun(t *testing.T) {
	const begins = `for argument; do case $argument in -result=*) file=${argument#*=} ;; esac; done
echo '{"Plan": {"Seed": 7}, "Error": "the world did not come to its end"}' >"$file"
`
	for name, c := range map[string]struct {
		script, violation string
		timeout           time.Duration // a minute by default
		over              bool
	}{
		"all is well": {
			script: begins + `echo '{"Counts": {"steps": 3}, "Simulated": 5}' >"$file"`, over: true,
		},
		"a violation": {
			script:    begins + `echo '{"Error": "2 replicas lead"}' >"$file"; exit 1`,
			violation: "2 replicas lead", over: true,
		},
		"a panic": {
			script:    begins + `echo begin; echo 'panic: deadlock: all goroutines in bubble are blocked'; exit 2`,
			violation: "the process died: panic: deadlock: all goroutines in bubble are blocked",
		},
		"a failure after the world": {
			script:    begins + `echo '{}' >"$file"; echo 'the cache is wrong'; exit 1`,
			violation: "the process died: the cache is wrong",
		},
		"a loop": {
			script: begins + `exec sleep 1000`, timeout: 2 * time.Second, violation: "the process did not end in 2s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			replay := filepath.Join(t.TempDir(), "replay")
			if err := os.WriteFile(replay, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			// Not before: a process that another one starts meanwhile would hold the file open, and
			// the script could not run.
			t.Parallel()
			p := &Programs{Replay: replay, Test: "world.test", Timeout: cmp.Or(c.timeout, time.Minute)}
			outcome, err := p.Run(t.Context(), Source{Seed: 7}, "")
			if err != nil {
				t.Fatal(err)
			}
			if outcome.Error != c.violation || outcome.Over() != c.over {
				t.Errorf("%q, over: %v, and not %q", outcome.Error, outcome.Over(), c.violation)
			}
		})
	}
	t.Run("no world", func(t *testing.T) {
		p := &Programs{Replay: "/bin/false", Timeout: time.Minute}
		if outcome, err := p.Run(t.Context(), Source{Seed: 7}, ""); err == nil {
			t.Errorf("no error, but %+v", outcome)
		}
	})
}

func TestPlans(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"b.json": `{"Seed": 7, "Nodes": 2}`, "a.json": `{"Seed": 3}`, "c.txt": "no"} {
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []Source{{3, file("a.json")}, {7, file("b.json")}}
	if got, err := Plans(dir); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if err := os.WriteFile(file("d.json"), []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Plans(dir); err == nil || !strings.Contains(err.Error(), "d.json") {
		t.Errorf("a file without a plan: %v", err)
	}
}

func TestKind(t *testing.T) {
	for _, alike := range []struct{ one, other, kind string }{
		{
			"pod pod-1-2 is pending (0/2 nodes are available: 2 node(s) didn't match.), but fits on node-3",
			"pod pod-14-0 is pending (0/5 nodes are available), but fits on node-0",
			"pod is pending, but fits",
		},
		{"2 replicas lead", "0 replicas lead", "replicas lead"},
		{"livesched-0-1 does not run", "livesched-2-17 does not run", "does not run"},
		{
			"the process died: panic: test timed out after 1m0s",
			"the process died: panic: test timed out after 5m0s",
			"the process died: panic: test",
		},
	} {
		if one, other := Kind(alike.one), Kind(alike.other); one != alike.kind || other != alike.kind {
			t.Errorf("%q and %q, not %q", one, other, alike.kind)
		}
	}
	if Kind("pod a was bound to b") == Kind("pod a is pending") {
		t.Error("different violations are of the same kind")
	}
}

func TestTheExcerptSaysWhyAProcessEnded(t *testing.T) {
	before, after := strings.Repeat("a line\n", 100), strings.Repeat("a frame\n", 100)
	for _, one := range []struct{ output, death, begins string }{
		{before + "panic: deadlock: main bubble goroutine has exited\n" + after,
			"panic: deadlock: main bubble goroutine has exited", "panic: deadlock"},
		{before + "fatal error: all goroutines are asleep - deadlock!\n" + after,
			"fatal error: all goroutines are asleep - deadlock!", "fatal error: all"},
		{before + "the cache is wrong\n", "the cache is wrong", "a line"},
		{"", "", ""},
	} {
		if got := death(one.output); got != one.death {
			t.Errorf("death: %q, not %q", got, one.death)
		}
		excerpt := (&Outcome{Output: one.output}).Excerpt()
		if !strings.HasPrefix(excerpt, one.begins) || strings.Count(excerpt, "\n") > excerptLines {
			t.Errorf("%q does not begin with %q, or is too long", excerpt, one.begins)
		}
	}
}
