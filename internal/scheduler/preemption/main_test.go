// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/test/controlplane"
	"github.com/livesched/livesched/test/leaks"
	"github.com/livesched/livesched/test/objects"
)

// The tests share an API server and its informers.
var (
	admin       *rest.Config
	factory     informers.SharedInformerFactory
	stopFactory = make(chan struct{})
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	metrics.Register()
	klog.SetLogger(logr.Discard())
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
	client, err := clientset.NewForConfig(admin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	factory = objects.NewInformers(client)
	defer func() {
		close(stopFactory)
		factory.Shutdown()
	}()
	return m.Run()
}
