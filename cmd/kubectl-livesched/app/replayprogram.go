// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/internal/version"
)

// replayProgram has the code of the scheduler, which is several times as large as this program.
const replayProgram = "kubectl-livesched-replay"

// exitCode ends the command line with the exit code of another program, which has reported why.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("%s ended with %d", replayProgram, int(e)) }

// runReplayProgram runs replayProgram with the flags and arguments of this command.
func (o *options) runReplayProgram(command *cobra.Command) error {
	path, err := findReplayProgram()
	if err != nil {
		return err
	}
	_, args, err := command.Root().Find(o.args) // args without the name of the command
	if err != nil {
		return err
	}
	program := exec.CommandContext(command.Context(), path, args...)
	program.Stdin, program.Stdout, program.Stderr = o.In, o.Out, o.ErrOut
	err = program.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.Exited() {
		return exitCode(ended.ExitCode())
	}
	return err
}

// findReplayProgram returns the path of the program beside this one, or else of that in PATH.
func findReplayProgram() (string, error) {
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), replayProgram)); err == nil {
				return path, nil
			}
		}
	}
	if path, err := exec.LookPath(replayProgram); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("the program %s is neither in the directory of this program nor in your PATH: download it "+
		"from %s/releases/tag/%s",
		replayProgram, repository, version.Version)
}

const repository = "https://github.com/livesched/livesched"
