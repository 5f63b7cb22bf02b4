// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorials does what a reader of the tutorials does: it starts the quickstart's cluster,
// saves the files of a page, and runs its commands in a shell, with the kubectl of this machine. It
// compares what they print with the page, or writes it there. `make test-tutorials` runs the tests.
package tutorials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/livesched/livesched/test/docs"
)

// marker begins the lines between the outputs of commands.
const marker = "=====> step"

// shell is where a reader works: a directory with links to what `make quickstart` has built.
type shell struct{ dir string }

// take runs the steps of a page, except commands of make, and returns what each of them prints.
// Commands share a shell, so that variables last. All of them run, also after one has failed: some
// exit with 1 to report a difference.
func (s shell) take(ctx context.Context, steps []docs.Step) ([]string, error) {
	var script strings.Builder
	script.WriteString("source .sandbox/env\n")
	inLoop, held := false, 0
	for _, step := range steps {
		if !inLoop {
			fmt.Fprintf(&script, "echo '%s'\n", marker)
		}
		switch {
		case step.File != "":
			if err := os.WriteFile(filepath.Join(s.dir, step.File), []byte(step.Content), 0o600); err != nil {
				return nil, err
			}
		case !strings.HasPrefix(step.Command, "make "):
			script.WriteString(step.Command + "\n" + step.Input)
		}
		// The lines of a loop are several steps. What they print is the output of the first.
		if begins, ends := strings.HasPrefix(step.Command, "for "), step.Command == "done"; begins || ends {
			inLoop = begins
		}
		if inLoop {
			held++
			continue
		}
		for ; held > 0; held-- {
			fmt.Fprintf(&script, "echo '%s'\n", marker)
		}
	}
	var output bytes.Buffer
	bash := exec.CommandContext(ctx, "bash")
	bash.Dir, bash.Stdin, bash.Stdout, bash.Stderr = s.dir, strings.NewReader(script.String()), &output, &output
	bash.Env = append(os.Environ(), "NO_COLOR=1", "COLUMNS=80")
	var exit *exec.ExitError
	if err := bash.Run(); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	parts := strings.Split(output.String(), marker)
	if len(parts) != len(steps)+1 {
		return nil, fmt.Errorf("the shell ended early: %s", output.String())
	}
	printed := make([]string, 0, len(steps))
	for _, part := range parts[1:] {
		_, text, _ := strings.Cut(part, "\n")
		printed = append(printed, text)
	}
	return printed, nil
}

// rewritten returns the text of a page with what its commands have printed. Outputs that leave
// lines out, with "...", stay.
func rewritten(text string, steps []docs.Step, printed []string) string {
	var out strings.Builder
	for i, step := range steps {
		if strings.TrimSpace(step.Output) == "" || strings.Contains(step.Output, "...") {
			continue
		}
		before, after, found := strings.Cut(text, step.Output)
		if !found {
			continue
		}
		out.WriteString(before)
		if docs.Shows(step.Output, printed[i]) {
			out.WriteString(step.Output)
		} else {
			out.WriteString(strings.TrimRight(printed[i], "\n") +
				strings.Repeat("\n", len(step.Output)-len(strings.TrimRight(step.Output, "\n"))))
		}
		text = after
	}
	return out.String() + text
}
