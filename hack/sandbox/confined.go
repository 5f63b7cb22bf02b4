// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/livesched/livesched/test/controlplane/process"
)

// confined returns the configuration of a process that runs as its container does in
// config/manager: as user 65532 with a read-only root, which is rootfs, without capabilities and
// without a way to get any. bubblewrap does that without a daemon and without root. Only files are
// added.
//
// bubblewrap does not pass on signals: SIGTERM ends it and, with it, livesched at once.
func confined(cfg process.Config, rootfs string, files ...string) (process.Config, error) {
	entries, err := os.ReadDir(rootfs)
	if err != nil {
		return cfg, err
	}
	args := []string{"--unshare-all", "--share-net", "--die-with-parent", "--clearenv",
		"--uid", "65532", "--gid", "65532", "--cap-drop", "ALL"}
	for _, entry := range entries {
		args = append(args, "--ro-bind", filepath.Join(rootfs, entry.Name()), "/"+entry.Name())
	}
	for _, file := range files {
		args = append(args, "--ro-bind", file, file)
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/", "--chdir", "/", "/livesched")
	cfg.Path, cfg.Args = "bwrap", append(args, cfg.Args...)
	return cfg, nil
}

// checkConfined reads from the kernel that livesched, the child of bubblewrap, is confined. The
// child is bubblewrap itself for a moment before it is livesched.
func checkConfined(ctx context.Context, bubblewrap int) error {
	for {
		err := confinedNow(bubblewrap)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("livesched is not confined: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func confinedNow(bubblewrap int) error {
	// The first child is the init of livesched's namespace of processes, and livesched its child.
	pid, err := onlyChild(fmt.Sprint(bubblewrap))
	if err != nil {
		return err
	}
	if pid, err = onlyChild(pid); err != nil {
		return err
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return err
	}
	users, err := os.ReadFile(filepath.Join("/proc", pid, "uid_map"))
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile(filepath.Join("/proc", pid, "mounts"))
	if err != nil {
		return err
	}
	return confinedBy(string(status), string(users), string(mounts))
}

// onlyChild returns the ID of the one child of a process.
func onlyChild(pid string) (string, error) {
	content, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if err != nil {
		return "", err
	}
	children := strings.Fields(string(content))
	if len(children) != 1 {
		return "", fmt.Errorf("process %s has %d children, not one", pid, len(children))
	}
	return children[0], nil
}

// confinedBy checks the files status, uid_map and mounts of a process in /proc.
func confinedBy(status, users, mounts string) error {
	values := map[string]string{}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		values[key] = strings.TrimSpace(value)
	}
	var errs []error
	for key, want := range map[string]string{
		"Name": "livesched", "NoNewPrivs": "1", "CapInh": noCapabilities, "CapPrm": noCapabilities,
		"CapEff": noCapabilities, "CapBnd": noCapabilities, "CapAmb": noCapabilities,
	} {
		if values[key] != want {
			errs = append(errs, fmt.Errorf("%s is %q, not %q", key, values[key], want))
		}
	}
	// The only user of its namespace: the first column is the user inside, the third how many.
	if fields := strings.Fields(users); len(fields) != 3 || fields[0] != "65532" || fields[2] != "1" {
		errs = append(errs, fmt.Errorf("the map of users is %q, not 65532 alone", users))
	}
	readOnly := false
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[1] == "/" {
			readOnly = strings.HasPrefix(fields[3]+",", "ro,") // the last mount counts
		}
	}
	if !readOnly {
		errs = append(errs, errors.New("the root file system is not read-only"))
	}
	return errors.Join(errs...)
}

const noCapabilities = "0000000000000000"
