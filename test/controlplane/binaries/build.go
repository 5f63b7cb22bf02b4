// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// buildDelay is the time in which a canceled `go build` may clean up before it is killed.
const buildDelay = 5 * time.Second

// build builds the named programs, one after the other: the Go toolchain uses all cores for each.
func build(ctx context.Context, cfg Config, p *pins, names []string) error {
	dir := p.dir(cfg.Root)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making room for the control plane: %w", err)
	}
	unlock, err := lock(ctx, cfg, filepath.Join(filepath.Dir(dir), ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	for _, name := range names {
		target := filepath.Join(dir, name)
		if isExecutable(target) {
			continue // built by the previous holder of the lock
		}
		prog := programs(p.kubernetes)[name]
		fmt.Fprintf(cfg.Progress,
			"building %s %s from source, once: minutes if the Go build cache has nothing of it yet ... ", name,
			p.versions[prog.source])
		began := time.Now()
		if err := buildOne(ctx, moduleDir(cfg.Root, prog.source), target, p.ldflags(prog), prog.pkg); err != nil {
			fmt.Fprintln(cfg.Progress, "failed")
			return fmt.Errorf("building %s %s: %w", name, p.versions[prog.source], err)
		}
		fmt.Fprintf(cfg.Progress, "%s\n", time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// buildOne writes beside the target and renames, so that a target that exists is complete.
func buildOne(ctx context.Context, dir, target, ldflags, pkg string) error {
	part := fmt.Sprintf("%s.part-%d", target, os.Getpid())
	defer func() { _ = os.Remove(part) }() // gone after a successful rename
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", ldflags, "-o", part, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = buildDelay
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("the go command is not in PATH, and the control plane is built with it")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("go build %s in %s: %w\n%s", pkg, dir, err, lastLines(string(out), 20))
	}
	return os.Rename(part, target)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
