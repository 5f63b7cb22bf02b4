// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command upstreamdiff prints what has changed between two versions of Kubernetes as far as it
// concerns livesched. docs/development.md describes how to follow a minor version with it.
//
//	go run ./hack/upstreamdiff -from v1.36.3 -to v1.37.2
//
// It reads the sources through the Go module proxy. Each section compares a list of lines, such as
// the metrics or the names of test cases, which it reads from the syntax of the sources. The last
// section is about the sources that livesched's own code follows. A test fails if one of them is
// not as it was when that code was compared with it, and
//
//	go run ./hack/upstreamdiff -confirm
//
// says that it has been compared.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

func main() {
	from := flag.String("from", "", "version of Kubernetes that livesched follows, such as v1.37.2")
	to := flag.String("to", "", "version of Kubernetes to compare it with")
	confirmed := flag.Bool("confirm", false,
		"write "+reviewedFile+": livesched's code has been compared with the Kubernetes of go.mod")
	root := flag.String("root", ".", "repository of livesched")
	flag.Parse()
	err := func() error {
		if *confirmed {
			return confirm(context.Background(), *root)
		}
		return run(context.Background(), os.Stdout, *from, *to, *root)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstreamdiff:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, from, to, root string) error {
	if from == "" || to == "" {
		return errors.New("-from and -to are required, such as v1.37.2")
	}
	before, err := download(ctx, from)
	if err != nil {
		return err
	}
	after, err := download(ctx, to)
	if err != nil {
		return err
	}
	all, err := followers(os.DirFS(root), before.minor)
	if err != nil {
		return err
	}
	before.other, after.other = after, before
	fmt.Fprintf(out, "# From Kubernetes %s to %s\n", from, to)
	for _, s := range sections {
		if err := s.print(out, before, after); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	fmt.Fprint(out, "\n## Libraries\n\nlivesched runs their code: its answers may change with them.\n\n")
	if err := printSources(out, before, after, libraries); err != nil {
		return err
	}
	fmt.Fprint(out, "\n## Sources of livesched's own code\n\n"+
		"Compare each file with its counterparts, and change the version in its comment.\n\n")
	return printSources(out, before, after, all)
}

// release is the sources of a version of Kubernetes.
type release struct {
	// minor is the version without the patch, such as 1.37.
	minor string
	// kubernetes is the module k8s.io/kubernetes, and modules are those that it publishes apart, by
	// name.
	kubernetes fs.FS
	modules    map[string]fs.FS
	// other is the version that this one is compared with.
	other *release
}

// modules are the modules of Kubernetes that livesched builds on, apart from k8s.io/kubernetes.
var modules = []string{
	"api", "client-go", "component-base", "component-helpers", "dynamic-resource-allocation", "kube-scheduler",
}

// download returns the sources of a version, which the go command keeps in its module cache.
func download(ctx context.Context, version string) (*release, error) {
	minor, err := minorOf(version)
	if err != nil {
		return nil, err
	}
	r := &release{minor: minor, modules: map[string]fs.FS{}}
	if r.kubernetes, err = module(ctx, "k8s.io/kubernetes@"+version); err != nil {
		return nil, err
	}
	for _, name := range modules {
		if r.modules[name], err = module(ctx, "k8s.io/"+name+"@v0."+strings.TrimPrefix(version, "v1.")); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// minorOf returns the minor version of a version, such as 1.37 of v1.37.2.
func minorOf(version string) (string, error) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 || parts[0] != "v1" {
		return "", fmt.Errorf("%q is not a version of Kubernetes, such as v1.37.2", version)
	}
	return "1." + parts[1], nil
}

func module(ctx context.Context, query string) (fs.FS, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", query)
	// Outside of a module, the go command needs no versions but the one in the query.
	command.Dir = os.TempDir()
	text, err := command.Output()
	var found struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(text, &found); jsonErr != nil {
		return nil, fmt.Errorf("go mod download %s: %w", query, errors.Join(err, jsonErr))
	}
	if found.Error != "" {
		return nil, fmt.Errorf("go mod download %s: %s", query, found.Error)
	}
	return os.DirFS(found.Dir), nil
}
