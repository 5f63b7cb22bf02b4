// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

const (
	// countInterval is the interval between two requests for the numbers of pending pods.
	countInterval = 2 * time.Second
	// readInterval is the interval between two reads of objects, which are in memory. A change is
	// printed when two reads have found it, since a new spec and its status are two changes.
	readInterval = 200 * time.Millisecond
)

// statusFollower prints the status whenever it differs from the last one.
type statusFollower struct {
	*statusOptions
	names      []string
	objects    client.Reader // a cache that watches
	last, read *print.Status // that was printed, and that was read last

	mu      sync.Mutex // guards the rest
	pods    pendingPods
	failure string // the last one that was reported
}

// follow follows the status until the context is done. It watches profiles and policies, and asks
// for the numbers of pods at a fixed interval.
func (o *statusOptions) follow(ctx context.Context, config *rest.Config, names []string, last *print.Status,
	pods pendingPods) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	f := &statusFollower{statusOptions: o, names: names, last: last, pods: pods}
	objects, err := newObjectCache(ctx, config, f.report)
	if err != nil {
		return err
	}
	f.objects = objects
	running.Go(func() { _ = objects.Start(ctx) }) // it ends with the context only
	if !objects.WaitForCacheSync(ctx) {
		return nil
	}
	running.Go(func() { _ = wait.PollUntilContextCancel(ctx, countInterval, false, f.count) })
	if err := wait.PollUntilContextCancel(ctx, readInterval, true, f.show); ctx.Err() == nil {
		return err
	}
	return nil
}

// count reads the numbers of pods.
func (f *statusFollower) count(ctx context.Context) (done bool, err error) {
	pods := f.countPods(ctx, &f.livesched)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods = pods
	return false, nil
}

// show prints the status if it has changed.
func (f *statusFollower) show(ctx context.Context) (done bool, err error) {
	report, err := readStatus(ctx, f.objects, f.names)
	if err != nil {
		f.report(err)
		return false, nil
	}
	f.mu.Lock()
	report.SetPods(f.pods.byProfile, f.pods.unknown)
	f.mu.Unlock()
	settled := equality.Semantic.DeepEqual(report, f.read)
	f.read = report
	if !settled || equality.Semantic.DeepEqual(report, f.last) {
		return false, nil
	}
	f.last = report
	f.mu.Lock()
	f.failure = "" // a failure after a change is another one
	f.mu.Unlock()
	switch f.output {
	case print.YAML:
		_, _ = fmt.Fprintln(f.Out, "---")
	case "", print.Wide:
		_, _ = fmt.Fprintf(f.Out, "\n%s\n", time.Now().Format(time.TimeOnly))
	}
	return false, f.print(report)
}

// report reports a failure, unless the last one was the same.
func (f *statusFollower) report(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err.Error() != f.failure {
		_, _ = fmt.Fprintf(f.ErrOut, "error: %v\n", err)
	}
	f.failure = err.Error()
}

// newObjectCache returns a cache of profiles and policies, to be started. It calls failed when it
// cannot list or watch objects, which it tries again.
func newObjectCache(ctx context.Context, config *rest.Config, failed func(error)) (cache.Cache, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout, config.QPS = 0, -1 // --request-timeout would end watches
	objects, err := cache.New(config, cache.Options{
		Scheme: scheme,
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) && !errors.Is(err, io.EOF) &&
				!errors.Is(err, io.ErrUnexpectedEOF) {
				failed(err) // watches end with the other errors
			}
		},
	})
	if err != nil {
		return nil, err
	}
	for _, object := range []client.Object{&v1alpha1.SchedulerProfile{}, &v1alpha1.SchedulingPolicy{}} {
		if _, err := objects.GetInformer(ctx, object); err != nil {
			return nil, err
		}
	}
	return objects, nil
}
