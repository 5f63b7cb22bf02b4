// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release builds what a release of livesched consists of, without a container runtime:
//
//	release image -version v1.2.3                       the image, as an OCI layout in bin/image
//	release push -image registry.example.com/livesched  pushes bin/image
//	release unpack -out dir                             unpacks bin/image for this machine
//	release artifacts -version v1.2.3                   everything else, in bin/release/v1.2.3
//
// Two builds of the same commit with the same Go toolchain give the same bytes: no file has a time
// but SOURCE_DATE_EPOCH, and no binary has a path of the machine that built it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// source is what is built.
type source struct {
	root    string // of the repository
	version string
	commit  string // empty if it is not known
	ldflags string
	epoch   time.Time // the only time in what is built
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("the first argument must be image, push, unpack or artifacts")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	root := flags.String("root", ".", "directory of the repository")
	layout := flags.String("layout", "bin/image", "directory of the OCI layout")
	key := flags.String("key", "", "file with a private key; what is made is signed with it")
	src := source{}
	flags.StringVar(&src.version, "version", "dev", "version to build")
	flags.StringVar(&src.commit, "commit", "", "commit that is built")
	flags.StringVar(&src.ldflags, "ldflags", "", "flags for the Go linker")

	var do func() error
	switch args[0] {
	case "image":
		list := flags.String("platforms", "linux/amd64,linux/arm64", "platforms of the image, separated by commas")
		do = func() error {
			platforms, err := parsePlatforms(*list)
			if err != nil {
				return err
			}
			return buildImage(ctx, src, platforms, *layout)
		}
	case "push":
		image := flags.String("image", "", "where to push to: repository and tag")
		do = func() error { return push(ctx, *layout, *image, *key) }
	case "unpack":
		out := flags.String("out", "", "directory for the root file system; what is in it is deleted")
		do = func() error { return unpack(*layout, platform{"linux", runtime.GOARCH}, *out) }
	case "artifacts":
		r := release{}
		flags.StringVar(&r.manifest, "manifest", "", "file with the manifests of config/default")
		flags.StringVar(&r.image, "image", "", "what the image is pushed to; install.yaml names it by digest")
		flags.StringVar(&r.out, "out", "", "directory for the artifacts; what is in it is deleted")
		do = func() error {
			r.source, r.layout, r.key = src, *layout, *key
			return r.build(ctx)
		}
	default:
		return fmt.Errorf("%q is not a command; the commands are image, push, unpack and artifacts", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var err error
	if src.root, err = filepath.Abs(*root); err != nil {
		return err
	}
	if src.epoch, err = sourceDate(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	return do()
}

// sourceDate reads SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/).
func sourceDate(seconds string) (time.Time, error) {
	if seconds == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(n, 0).UTC(), nil
}
