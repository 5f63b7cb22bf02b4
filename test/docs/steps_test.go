// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"reflect"
	"strings"
	"testing"
)

func TestStepsAreInOrder(t *testing.T) {
	p := parse("x.md", strings.Join([]string{
		"Save `a.yaml` and `b.yaml`:", "```yaml", "a: 1", "```", "```yaml", "b: 1", "```", "Then:",
		"```", "$ kubectl apply -f a.yaml \\", "    -f b.yaml  # both", "created", "", "done", "$ kubectl get x", "```",
		"```sh", "make test  # all", "kubectl create -f - <<EOF", "d: 1", "EOF", "```", "```yaml", "c: 1", "```", "```",
		"a drawing", "```", "```", "kubectl get y", "```", "",
	}, "\n"))
	want := []Step{
		{File: "a.yaml", Content: "a: 1\n"},
		{File: "b.yaml", Content: "b: 1\n"},
		{Command: "kubectl apply -f a.yaml -f b.yaml", Output: "created\n\ndone"},
		{Command: "kubectl get x"},
		{Command: "make test"},
		{Command: "kubectl create -f - <<EOF", Input: "d: 1\nEOF\n"},
		{Command: "kubectl get y"},
	}
	if got := p.Steps(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestEveryExceptionIsNeeded fails if no command is left that an exception is for.
func TestEveryExceptionIsNeeded(t *testing.T) {
	used := map[int]int{}
	commands := 0
	for _, p := range pages(t) {
		for _, step := range p.Steps() {
			if step.Command != "" {
				commands++
				used[p.exception(step.Command)]++
			}
		}
	}
	for i, e := range exceptions {
		if used[i] == 0 {
			t.Errorf("the exception %s: %s (%s) is for no command", e.page, e.command, e.reason)
		}
	}
	if commands < 100 {
		t.Errorf("found only %d commands", commands)
	}
	t.Logf("%d of %d commands are run", used[-1], commands)
}
