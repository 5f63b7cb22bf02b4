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
	// changesSettle is how long a change waits for others, since a new spec and its status are two.
	changesSettle = 200 * time.Millisecond
)

// statusFollower prints the status whenever it differs from the last one.
type statusFollower struct {
	*statusOptions
	names   []string
	objects client.Reader // a cache that watches
	pods    pendingPods
	last    *print.Status
	failure string // the last one that was reported
}

// follow follows the status until the context is done. It watches profiles and policies, and asks
// for the numbers of pods at a fixed interval.
func (o *statusOptions) follow(ctx context.Context, config *rest.Config, names []string, last *print.Status, pods pendingPods) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	changes, failures := make(chan struct{}, 1), make(chan error, 1)
	objects, err := newObjectCache(ctx, config, changes, failures)
	if err != nil {
		return err
	}
	synced, counts := make(chan struct{}), make(chan pendingPods)
	running.Go(func() { _ = objects.Start(ctx) }) // it ends with the context only
	running.Go(func() { o.count(ctx, counts) })
	running.Go(func() {
		if objects.WaitForCacheSync(ctx) {
			close(synced)
		}
	})
	f := &statusFollower{statusOptions: o, names: names, objects: objects, pods: pods, last: last}
	return f.loop(ctx, synced, changes, failures, counts)
}

// loop prints until the context is done. It reads objects only when they have been listed: before
// that, a read would block.
func (f *statusFollower) loop(ctx context.Context, synced, changes <-chan struct{}, failures <-chan error, counts <-chan pendingPods) error {
	var settled <-chan time.Time // nil without a change
	ready := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failures:
			f.report(err)
			continue
		case <-changes:
			if settled == nil {
				settled = time.After(changesSettle)
			}
			continue
		case <-synced:
			ready, synced = true, nil
		case <-settled:
			settled = nil
		case f.pods = <-counts:
		}
		if !ready {
			continue
		}
		if err := f.show(ctx); err != nil {
			return err
		}
	}
}

// count sends the numbers of pods at a fixed interval, until the context is done.
func (o *statusOptions) count(ctx context.Context, counts chan<- pendingPods) {
	ticker := time.NewTicker(countInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		pods := o.countPods(ctx, &o.livesched)
		select {
		case <-ctx.Done():
			return
		case counts <- pods:
		}
	}
}

// show prints the status if it has changed.
func (f *statusFollower) show(ctx context.Context) error {
	report, err := f.read(ctx, f.objects, f.names)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		f.report(err)
		return nil
	}
	report.SetPods(f.pods.byProfile, f.pods.unknown)
	if equality.Semantic.DeepEqual(report, f.last) {
		return nil
	}
	f.last, f.failure = report, ""
	switch f.output {
	case print.YAML:
		_, _ = fmt.Fprintln(f.Out, "---")
	case "", print.Wide:
		_, _ = fmt.Fprintf(f.Out, "\n%s\n", time.Now().Format(time.TimeOnly))
	}
	return f.print(report)
}

// report reports a failure once.
func (f *statusFollower) report(err error) {
	if err.Error() != f.failure {
		_, _ = fmt.Fprintf(f.ErrOut, "error: %v\n", err)
	}
	f.failure = err.Error()
}

// newObjectCache returns a cache of profiles and policies, to be started. It sends on changes when
// an object has changed, and on failures when it cannot list or watch objects, which it tries
// again.
func newObjectCache(ctx context.Context, config *rest.Config, changes chan<- struct{}, failures chan<- error) (cache.Cache, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout, config.QPS = 0, -1 // --request-timeout would end watches
	objects, err := cache.New(config, cache.Options{
		Scheme: scheme,
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return // watches end like this
			}
			select {
			case failures <- err:
			default: // another one is to be reported
			}
		},
	})
	if err != nil {
		return nil, err
	}
	notify := func() {
		select {
		case changes <- struct{}{}:
		default: // there is a change already
		}
	}
	for _, object := range []client.Object{&v1alpha1.SchedulerProfile{}, &v1alpha1.SchedulingPolicy{}} {
		informer, err := objects.GetInformer(ctx, object)
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { notify() },
			UpdateFunc: func(any, any) { notify() },
			DeleteFunc: func(any) { notify() },
		}); err != nil {
			return nil, err
		}
	}
	return objects, nil
}
