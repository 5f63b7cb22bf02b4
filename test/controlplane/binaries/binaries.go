// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binaries provides the programs of a local control plane, built from their own Go modules.
//
// Nothing is downloaded except through the Go module proxy. The modules under hack/controlplane pin
// the versions:
//
//	etcd/        etcd                                                 (a main of ours around etcdmain)
//	kubernetes/  kube-apiserver, kube-controller-manager, kube-scheduler
//	kwok/        kwok
//
// Every program is built once into bin/controlplane/<Kubernetes version>-<digest of the pins>/
// under its plain name, so that the directory can serve as KUBEBUILDER_ASSETS. A changed pin means
// another directory; an old one stays until `make clean`.
//
// The package imports the standard library alone: the command that builds the control plane
// compiles in a second.
package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// AssetsEnv names a directory with etcd and kube-apiserver to be used instead of building them, as
// it does for envtest. Other programs are taken from it where it has them.
const AssetsEnv = "KUBEBUILDER_ASSETS"

// The programs that can be asked for.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// Config says where to build and where to report.
type Config struct {
	// Root is the top of the repository. Default: the directory with livesched's go.mod at or above
	// the working directory.
	Root string
	// Assets stands for the environment variable AssetsEnv. Default: its value; where both are
	// empty everything is built.
	Assets string
	// Progress receives one line per program that is built. Default: discarded.
	Progress io.Writer
}

// Set is where the programs are.
type Set struct {
	// Dir has at least etcd and kube-apiserver, if those were asked for, and is fit for AssetsEnv.
	Dir string
	// Paths has the path of every program asked for, by name.
	Paths map[string]string
}

// Ensure returns the programs named, building those that are missing. Building takes minutes for a
// cold Go build cache and seconds for a warm one. Callers in other processes wait for each other
// instead of building twice; ctx ends wait and build.
func Ensure(ctx context.Context, cfg Config, names ...string) (Set, error) {
	if err := cfg.complete(); err != nil {
		return Set{}, err
	}
	p, err := readPins(cfg.Root)
	if err != nil {
		return Set{}, err
	}
	set := Set{Dir: p.dir(cfg.Root), Paths: make(map[string]string, len(names))}
	if cfg.Assets != "" {
		set.Dir = cfg.Assets
	}
	var missing []string
	for _, name := range names {
		path, err := locate(cfg, p, name)
		if err != nil {
			return Set{}, err
		}
		set.Paths[name] = path
		if !isExecutable(path) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return set, nil
	}
	return set, build(ctx, cfg, p, missing)
}

func (c *Config) complete() error {
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	if c.Assets == "" {
		c.Assets = os.Getenv(AssetsEnv)
	}
	if c.Assets != "" {
		abs, err := filepath.Abs(c.Assets)
		if err != nil {
			return fmt.Errorf("resolving %s: %w", AssetsEnv, err)
		}
		c.Assets = abs
	}
	if c.Root == "" {
		root, err := FindRoot()
		if err != nil {
			return err
		}
		c.Root = root
	}
	return nil
}

// locate returns where a program is or will be built to.
func locate(cfg Config, p *pins, name string) (string, error) {
	if _, known := programs[name]; !known {
		return "", fmt.Errorf("unknown program %q of the control plane", name)
	}
	built := filepath.Join(p.dir(cfg.Root), name)
	if cfg.Assets == "" {
		return built, nil
	}
	given := filepath.Join(cfg.Assets, name)
	if isExecutable(given) {
		return given, nil
	}
	if slices.Contains([]string{Etcd, APIServer}, name) {
		return "", fmt.Errorf("%s is %s, but there is no executable %s in it; put %s and %s there, or unset the variable to have them built from source",
			AssetsEnv, cfg.Assets, name, Etcd, APIServer)
	}
	return built, nil
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// FindRoot returns the top of the repository that the working directory is in.
func FindRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && moduleLine.Match(text) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for the repository: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside the livesched repository, which has the pins of the control plane", start)
		}
	}
}
