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

// readInterval is the interval between two reads of objects, which are in memory. A change is
// printed when two reads have found it, since a new spec and its status are two changes.
const readInterval = 200 * time.Millisecond

// objectFollower prints a report about objects whenever it differs from the last one.
type objectFollower[Report any] struct {
	*options
	output string
	// take returns the present report, from a cache that watches the objects. An error ends it.
	take func(ctx context.Context, objects client.Reader) (Report, error)
	// print prints a report. It returns whether it is the last one.
	print      func(Report) (done bool, err error)
	last, read Report // that was printed, and that was taken last

	mu      sync.Mutex // guards the rest
	failure string     // the last one that was reported
}

// follow watches objects of these kinds, and prints reports about them until the last one, or until
// the context is done.
func (f *objectFollower[Report]) follow(ctx context.Context, config *rest.Config, kinds ...client.Object) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	objects, err := newObjectCache(ctx, config, f.report, kinds)
	if err != nil {
		return err
	}
	running.Go(func() { _ = objects.Start(ctx) }) // it ends with the context only
	if !objects.WaitForCacheSync(ctx) {
		return nil
	}
	err = wait.PollUntilContextCancel(ctx, readInterval, true,
		func(ctx context.Context) (done bool, err error) { return f.show(ctx, objects) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// show prints the report if it has changed.
func (f *objectFollower[Report]) show(ctx context.Context, objects client.Reader) (done bool, err error) {
	report, err := f.take(ctx, objects)
	if err != nil {
		return false, err
	}
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
	return f.print(report)
}

// report reports a failure, unless the last one was the same.
func (f *objectFollower[Report]) report(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err.Error() != f.failure {
		_, _ = fmt.Fprintf(f.ErrOut, "error: %v\n", err)
	}
	f.failure = err.Error()
}

// newObjectCache returns a cache of objects of these kinds, to be started. It calls failed when it
// cannot list or watch objects, which it tries again.
func newObjectCache(ctx context.Context, config *rest.Config, failed func(error),
	kinds []client.Object) (cache.Cache, error) {
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
	for _, object := range kinds {
		if _, err := objects.GetInformer(ctx, object); err != nil {
			return nil, err
		}
	}
	return objects, nil
}
