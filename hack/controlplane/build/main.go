// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command build builds the missing programs of the local control plane and prints their directory,
// for
//
//	KUBEBUILDER_ASSETS=$(go run ./hack/controlplane/build) go test ./...
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/livesched/livesched/test/controlplane/binaries"
)

func main() {
	scheduler := flag.Bool("scheduler", false, "build kube-scheduler too, which only benchmarks need")
	kubernetes := flag.String("kubernetes", "",
		"build etcd, kube-apiserver and kube-controller-manager of this minor version, such as 1.35")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	names := []string{binaries.Etcd, binaries.APIServer, binaries.ControllerManager, binaries.Kwok}
	switch {
	case *kubernetes != "":
		names = []string{binaries.Etcd, binaries.APIServer, binaries.ControllerManager}
	case *scheduler:
		names = append(names, binaries.Scheduler)
	}
	set, err := binaries.Ensure(ctx, binaries.Config{Kubernetes: *kubernetes, Progress: os.Stderr}, names...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "control plane:", err)
		os.Exit(1)
	}
	fmt.Println(set.Dir)
}
