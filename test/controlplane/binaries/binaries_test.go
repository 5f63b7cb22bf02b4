// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
)

// fakeGo replaces the go command: it logs its arguments to a file, and then builds or fails.
const fakeGo = `#!/bin/sh
echo "$PWD $*" >> "$FAKE_GO_LOG"
if [ -n "$FAKE_GO_FAILS" ]; then echo "package is broken" >&2; exit 1; fi
while [ "$1" != "-o" ]; do shift; done
echo built > "$2"
chmod +x "$2"
`

// newRoot makes a repository with pins and a go command of its own. It returns the root and the log
// file of that command.
func newRoot(t *testing.T) (root, log string) {
	t.Helper()
	root = t.TempDir()
	for file, text := range map[string]string{
		"go.mod":                         "module github.com/livesched/livesched\n",
		"hack/controlplane/etcd/go.mod":  "module x\n\nrequire go.etcd.io/etcd/server/v3 v3.6.1\n",
		"hack/controlplane/etcd/go.sum":  "",
		"hack/controlplane/etcd/main.go": "package main\n",
		"hack/controlplane/kubernetes/go.mod": "module x\n\nrequire (\n\tk8s.io/api v0.0.1 // indirect\n" +
			"\tk8s.io/kubernetes v1.2.3 // indirect\n)\n",
		"hack/controlplane/kubernetes/go.sum":       "",
		"hack/controlplane/kubernetes-1.1/go.mod":   "module x\n\nrequire k8s.io/kubernetes v1.1.4 // indirect\n",
		"hack/controlplane/kubernetes-1.1/go.sum":   "",
		"hack/controlplane/kwok/go.mod":             "module x\n\nrequire sigs.k8s.io/kwok v0.8.0 // indirect\n",
		"hack/controlplane/kwok/go.sum":             "",
		"path/go":                                   fakeGo,
		"assets/both/" + Etcd:                       "given",
		"assets/both/" + APIServer:                  "given",
		"assets/one/" + APIServer:                   "given",
		"assets/not-executable/not-" + Etcd + ".md": "",
	} {
		path := filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	log = filepath.Join(root, "go.log")
	t.Setenv("PATH", filepath.Join(root, "path")+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("FAKE_GO_LOG", log)
	t.Setenv(AssetsEnv, "")
	return root, log
}

func builds(g Gomega, log string) []string {
	text, err := os.ReadFile(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	g.Expect(err).NotTo(HaveOccurred())
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestEnsure(t *testing.T) {
	t.Run("what is missing is built, once, under the version and digest of its pins", func(t *testing.T) {
		g := NewWithT(t)
		root, log := newRoot(t)
		var progress bytes.Buffer
		set, err := Ensure(t.Context(), Config{Root: root, Progress: &progress}, Etcd, APIServer)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(filepath.Base(set.Dir)).To(MatchRegexp(`^v1\.2\.3-[0-9a-f]{8}$`))
		g.Expect(set.Paths).To(
			Equal(map[string]string{Etcd: filepath.Join(set.Dir, "etcd"),
				APIServer: filepath.Join(set.Dir, "kube-apiserver")}))
		g.Expect(builds(g, log)).To(HaveExactElements(
			And(HavePrefix(filepath.Join(root, "hack/controlplane/etcd")+" build"),
				ContainSubstring("-ldflags -s -w -o"), HaveSuffix(" .")),
			And(HavePrefix(filepath.Join(root, "hack/controlplane/kubernetes")+" build"),
				ContainSubstring("-ldflags -s -w -X k8s.io/component-base/version.gitVersion=v1.2.3 -X "+
					"k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=2 -o"),
				HaveSuffix(" k8s.io/kubernetes/cmd/kube-apiserver"))))
		g.Expect(progress.String()).To(MatchRegexp(`^building etcd v3\.6\.1 from source.* \d+(\.\d+)?m?s\nbuilding ` +
			`kube-apiserver v1\.2\.3 .*s\n$`))

		progress.Reset()
		again, err := Ensure(t.Context(), Config{Root: root, Progress: &progress}, Etcd, APIServer, Kwok)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(again.Dir).To(Equal(set.Dir))
		g.Expect(builds(g, log)).To(HaveLen(3), "kwok is new")
		g.Expect(progress.String()).To(HavePrefix("building kwok v0.8.0"))

		g.Expect(os.WriteFile(filepath.Join(root, "hack/controlplane/kwok/go.sum"), []byte("other"), 0o644)).
			To(Succeed())
		other, err := Ensure(t.Context(), Config{Root: root}, Etcd)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(other.Dir).NotTo(Equal(set.Dir), "other pins, other directory")
	})
	t.Run("another version of Kubernetes is built from its own module into its own directory", func(t *testing.T) {
		g := NewWithT(t)
		root, log := newRoot(t)
		t.Setenv(AssetsEnv, t.TempDir()) // programs of another version
		set, err := Ensure(t.Context(), Config{Root: root, Kubernetes: "1.1"}, APIServer)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(filepath.Base(set.Dir)).To(HavePrefix("v1.1.4-"))
		g.Expect(builds(g, log)).To(HaveExactElements(And(
			HavePrefix(filepath.Join(root, "hack/controlplane/kubernetes-1.1")+" build"),
			ContainSubstring("gitMinor=1 "))))
		_, err = Ensure(t.Context(), Config{Root: root, Kubernetes: "1.0"}, APIServer)
		g.Expect(err).To(MatchError(ContainSubstring("kubernetes-1.0")))
	})
	t.Run("callers at the same time wait for each other", func(t *testing.T) {
		g := NewWithT(t)
		root, log := newRoot(t)
		var group errgroup.Group
		for range 8 {
			group.Go(func() error {
				_, err := Ensure(t.Context(), Config{Root: root}, Etcd, APIServer, ControllerManager, Scheduler, Kwok)
				return err
			})
		}
		g.Expect(group.Wait()).To(Succeed())
		g.Expect(builds(g, log)).To(HaveLen(5))
	})
	t.Run("a wait ends with its context", func(t *testing.T) {
		g := NewWithT(t)
		root, _ := newRoot(t)
		path := filepath.Join(root, "bin", "controlplane", ".lock")
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		unlock, err := lock(t.Context(), Config{}, path)
		g.Expect(err).NotTo(HaveOccurred())
		defer unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		var progress bytes.Buffer
		_, err = Ensure(ctx, Config{Root: root, Progress: &progress}, Etcd)
		g.Expect(err).To(MatchError(context.DeadlineExceeded))
		g.Expect(progress.String()).To(Equal("waiting for another process that builds the control plane\n"))
	})
	t.Run("a failed build shows what the go command said and leaves no file", func(t *testing.T) {
		g := NewWithT(t)
		root, _ := newRoot(t)
		t.Setenv("FAKE_GO_FAILS", "1")
		var progress bytes.Buffer
		set, err := Ensure(t.Context(), Config{Root: root, Progress: &progress}, Kwok)
		g.Expect(err).To(MatchError(And(ContainSubstring("building kwok v0.8.0: go build"),
			ContainSubstring("package is broken"))))
		g.Expect(progress.String()).To(HaveSuffix(" failed\n"))
		g.Expect(os.ReadDir(set.Dir)).To(BeEmpty())
	})
	t.Run("without a go command the error says so", func(t *testing.T) {
		g := NewWithT(t)
		root, _ := newRoot(t)
		t.Setenv("PATH", root)
		_, err := Ensure(t.Context(), Config{Root: root}, Etcd)
		g.Expect(err).To(MatchError(ContainSubstring("the go command is not in PATH")))
	})
	t.Run("an unknown program is an error", func(t *testing.T) {
		g := NewWithT(t)
		root, _ := newRoot(t)
		_, err := Ensure(t.Context(), Config{Root: root}, "kubectl")
		g.Expect(err).To(MatchError(ContainSubstring(`unknown program "kubectl"`)))
	})
}

func TestEnsureWithAssets(t *testing.T) {
	t.Run("etcd and kube-apiserver are taken from there and the rest is built", func(t *testing.T) {
		g := NewWithT(t)
		root, log := newRoot(t)
		assets := filepath.Join(root, "assets", "both")
		t.Setenv(AssetsEnv, assets)
		set, err := Ensure(t.Context(), Config{Root: root}, Etcd, APIServer, Kwok)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(set.Dir).To(Equal(assets))
		g.Expect(set.Paths[Etcd]).To(Equal(filepath.Join(assets, Etcd)))
		g.Expect(set.Paths[APIServer]).To(Equal(filepath.Join(assets, APIServer)))
		g.Expect(set.Paths[Kwok]).To(HavePrefix(filepath.Join(root, "bin")))
		g.Expect(builds(g, log)).To(HaveLen(1))
	})
	t.Run("one that is missing there is an error that says what to do", func(t *testing.T) {
		g := NewWithT(t)
		root, log := newRoot(t)
		t.Setenv(AssetsEnv, filepath.Join(root, "assets", "one"))
		_, err := Ensure(t.Context(), Config{Root: root}, APIServer, Etcd)
		g.Expect(err).
			To(MatchError(And(ContainSubstring("KUBEBUILDER_ASSETS is "+root), ContainSubstring("no executable etcd"),
				ContainSubstring("unset the variable"))))
		g.Expect(builds(g, log)).To(BeEmpty())
	})
}

func TestPins(t *testing.T) {
	t.Run("those of this repository can be read", func(t *testing.T) {
		g := NewWithT(t)
		root, err := FindRoot()
		g.Expect(err).NotTo(HaveOccurred())
		for _, minor := range []string{"", "1.36", "1.35", "1.34"} {
			p, err := readPins(root, minor)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(p.versions).To(HaveLen(3))
			for src, version := range p.versions {
				g.Expect(version).To(MatchRegexp(`^v\d+\.\d+\.\d+$`), src.module)
			}
			g.Expect(p.versions[p.kubernetes]).To(HavePrefix("v" + minor))
		}
	})
	t.Run("a module that is not required is an error that names file and module", func(t *testing.T) {
		g := NewWithT(t)
		root, _ := newRoot(t)
		path := filepath.Join(root, "hack/controlplane/kwok/go.mod")
		g.Expect(os.WriteFile(path, []byte("module x\n\nrequire sigs.k8s.io/kwokctl v1.0.0\n"), 0o644)).To(Succeed())
		_, err := readPins(root, "")
		g.Expect(err).To(MatchError(path + ": does not require sigs.k8s.io/kwok"))
	})
	t.Run("outside the repository its root is not found", func(t *testing.T) {
		g := NewWithT(t)
		t.Chdir(t.TempDir())
		_, err := FindRoot()
		g.Expect(err).To(MatchError(ContainSubstring("is not inside the livesched repository")))
	})
}
