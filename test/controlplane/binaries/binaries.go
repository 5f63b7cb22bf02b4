// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binaries provides the programs of a local control plane, built from their own Go modules.
//
// Nothing is downloaded except through the Go module proxy. The modules under hack/controlplane pin
// the versions:
//
//	etcd/        etcd                                                 (a main around etcdmain)
//	kubernetes/  kube-apiserver, kube-controller-manager, kube-scheduler
//	kubernetes-1.36/ and others         kube-apiserver, kube-controller-manager of other versions
//	kwok/        kwok
//
// Every program is built once into bin/controlplane/<Kubernetes version>-<digest of the pins>/
// under its plain name, so that the directory can serve as KUBEBUILDER_ASSETS. A changed pin leads
// to another directory; an old one stays until `make clean`.
//
// The package imports only the standard library, so that the command that builds the control plane
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

// AssetsEnv is the environment variable that names a directory with etcd and kube-apiserver, to be
// used instead of building them, as in envtest. If the directory has other programs, too, Ensure
// uses these as well.
const AssetsEnv = "KUBEBUILDER_ASSETS"

// The programs that Ensure can provide.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// Config configures Ensure.
type Config struct {
	// Root is the top of the repository. Default: the directory with livesched's go.mod at or above
	// the working directory.
	Root string
	// Assets replaces the value of the environment variable AssetsEnv. Default: the value of that
	// variable, unless Kubernetes is set. If both are empty, Ensure builds everything.
	Assets string
	// Kubernetes is the minor version of Kubernetes, such as 1.35. hack/controlplane has a module
	// for each. Default: the version that livesched is built from.
	Kubernetes string
	// Progress receives one line per program that is built. Default: discarded.
	Progress io.Writer
}

// Set holds the paths of programs.
type Set struct {
	// Dir contains at least etcd and kube-apiserver, if those were requested, and is fit for
	// AssetsEnv.
	Dir string
	// Paths holds the path of every requested program, by name.
	Paths map[string]string
}

// Ensure returns the named programs and builds those that are missing. Building takes minutes with
// a cold Go build cache and seconds with a warm one. Callers in other processes wait for each other
// instead of building twice. ctx bounds the wait and the build.
func Ensure(ctx context.Context, cfg Config, names ...string) (Set, error) {
	if err := cfg.complete(); err != nil {
		return Set{}, err
	}
	p, err := readPins(cfg.Root, cfg.Kubernetes)
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
	if c.Assets == "" && c.Kubernetes == "" {
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

// locate returns the path of a program, which need not be built yet.
func locate(cfg Config, p *pins, name string) (string, error) {
	if _, known := programs(p.kubernetes)[name]; !known {
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
		return "", fmt.Errorf("%s is %s, but there is no executable %s in it; put %s and %s there, or unset the "+
			"variable to have them built from source",
			AssetsEnv, cfg.Assets, name, Etcd, APIServer)
	}
	return built, nil
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// FindRoot returns the top of the repository that contains the working directory.
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
			return "", fmt.Errorf("%s is not inside the livesched repository, which has the pins of the control plane",
				start)
		}
	}
}
