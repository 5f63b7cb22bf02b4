// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"strings"
	"testing"
)

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
