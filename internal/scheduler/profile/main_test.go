// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/controlplane"
	"github.com/livesched/livesched/test/leaks"
)

// The tests share an API server and one cache with kube-scheduler's permissions, so that there are
// kinds which it must not read.
var (
	admin         *rest.Config
	sharedCluster cluster.Cluster
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	metrics.Register()
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	cp, err := controlplane.Start(context.Background(), controlplane.Options{Progress: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := cp.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if err := leaks.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	admin = cp.Config()

	limited := rest.CopyConfig(admin)
	limited.Impersonate.UserName = "system:kube-scheduler"
	sharedCluster, err = cluster.New(limited, func(o *cluster.Options) {
		o.Scheme = scheme.Scheme
		o.Cache = informers.CacheOptions(scheme.Scheme, true)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sharedCluster.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}
