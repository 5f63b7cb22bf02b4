// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// platform is an operating system and a processor, in Go's names.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// parsePlatforms reads a list as linux/amd64,linux/arm64.
func parsePlatforms(list string) ([]platform, error) {
	var platforms []platform
	for item := range strings.SplitSeq(list, ",") {
		system, arch, found := strings.Cut(item, "/")
		if !found || system != "linux" || arch == "" {
			return nil, fmt.Errorf("platform %q: it must be linux/ and a processor, as linux/amd64", item)
		}
		platforms = append(platforms, platform{system, arch})
	}
	return platforms, nil
}

// binary is a program for a platform, and the file with it.
type binary struct {
	program  string
	platform platform
	path     string
}

// compileAll builds programs into a directory, one after the other: the compiler is parallel.
func (s source) compileAll(ctx context.Context, wanted []binary, dir string) ([]binary, error) {
	built := make([]binary, 0, len(wanted))
	for i, b := range wanted {
		fmt.Printf("building %s %s for %s\n", b.program, s.version, b.platform)
		b.path = filepath.Join(dir, fmt.Sprint(i))
		if err := s.compile(ctx, b); err != nil {
			return nil, err
		}
		built = append(built, b)
	}
	return built, nil
}

// compile builds a program. Nothing of the environment but the Go toolchain has an influence on the
// result.
func (s source) compile(ctx context.Context, b binary) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags", s.ldflags, "-o", b.path, "./cmd/"+b.program)
	build.Dir = s.root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+b.platform.os, "GOARCH="+b.platform.arch,
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s: %w\n%s", b.program, b.platform, err, strings.TrimSpace(string(output)))
	}
	return nil
}
