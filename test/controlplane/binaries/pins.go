// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// source is a module under hack/controlplane.
type source struct {
	dir    string // relative to hack/controlplane
	module string // the version of this module is the version of the programs
}

var (
	etcdSource = source{dir: "etcd", module: "go.etcd.io/etcd/server/v3"}
	kwokSource = source{dir: "kwok", module: "sigs.k8s.io/kwok"}
)

// kubernetesSource returns the module of a minor version of Kubernetes, such as 1.35. Empty means
// the version that livesched is built from.
func kubernetesSource(minor string) source {
	s := source{dir: "kubernetes", module: "k8s.io/kubernetes"}
	if minor != "" {
		s.dir += "-" + minor
	}
	return s
}

// program describes how to build one program.
type program struct {
	source
	pkg string // import path, or "." for a main package of this repository
}

// programs returns all programs, those of Kubernetes from the given module.
func programs(kubernetes source) map[string]program {
	return map[string]program{
		Etcd:              {etcdSource, "."},
		APIServer:         {kubernetes, "k8s.io/kubernetes/cmd/kube-apiserver"},
		ControllerManager: {kubernetes, "k8s.io/kubernetes/cmd/kube-controller-manager"},
		Scheduler:         {kubernetes, "k8s.io/kubernetes/cmd/kube-scheduler"},
		Kwok:              {kwokSource, "sigs.k8s.io/kwok/cmd/kwok"},
	}
}

var moduleLine = regexp.MustCompile(`(?m)^module github\.com/livesched/livesched$`)

// pins holds the versions that the modules under hack/controlplane pin.
type pins struct {
	kubernetes source
	versions   map[source]string // with the leading v
	digest     string            // of every file that determines the build
}

// dir returns the directory for the programs of these pins.
func (p *pins) dir(root string) string {
	return filepath.Join(root, "bin", "controlplane", p.versions[p.kubernetes]+"-"+p.digest)
}

// readPins reads the pins of the repository at root, for a minor version of Kubernetes.
func readPins(root, minor string) (*pins, error) {
	p := &pins{kubernetes: kubernetesSource(minor), versions: make(map[source]string)}
	sum := sha256.New()
	for _, src := range []source{etcdSource, p.kubernetes, kwokSource} {
		dir := moduleDir(root, src)
		for _, file := range []string{"go.mod", "go.sum", "main.go"} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if errors.Is(err, fs.ErrNotExist) && file == "main.go" {
				continue // only etcd needs a main package of this repository
			}
			if err != nil {
				return nil, fmt.Errorf("reading the pins of the control plane: %w", err)
			}
			fmt.Fprintf(sum, "%s %d\n", file, len(text))
			sum.Write(text)
			if file != "go.mod" {
				continue
			}
			version, err := requiredVersion(text, src.module)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Join(dir, file), err)
			}
			p.versions[src] = version
		}
	}
	p.digest = hex.EncodeToString(sum.Sum(nil))[:8]
	return p, nil
}

// KubernetesVersion is the version, such as v1.36.3, at which the repository pins kube-apiserver
// and the other Kubernetes programs.
func KubernetesVersion(root string) (string, error) {
	p, err := readPins(root, "")
	if err != nil {
		return "", err
	}
	return p.versions[p.kubernetes], nil
}

func moduleDir(root string, src source) string {
	return filepath.Join(root, "hack", "controlplane", src.dir)
}

// requiredVersion returns the version at which a go.mod file requires a module.
func requiredVersion(gomod []byte, module string) (string, error) {
	line := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(module) + `\s+(v\S+)`)
	match := line.FindSubmatch(gomod)
	if match == nil {
		return "", fmt.Errorf("does not require %s", module)
	}
	return string(match[1]), nil
}

// ldflags strips the program and stamps Kubernetes programs with the version to report. Without the
// stamp, a program reports v0.0.0 and refuses or hides features that it considers newer than
// itself.
func (p *pins) ldflags(prog program) string {
	flags := "-s -w"
	if prog.source != p.kubernetes {
		return flags
	}
	version := p.versions[prog.source]
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	const pkg = "k8s.io/component-base/version"
	return fmt.Sprintf("%s -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s", flags, pkg, version, pkg, parts[0],
		pkg, parts[1])
}
