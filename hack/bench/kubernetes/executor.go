// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/hack/bench/cluster"
)

// executor runs the operations of one plan on a control plane where a contender schedules.
type executor struct {
	*plan
	client    clientset.Interface
	dynamic   dynamic.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	templates *templates
	// pods is the informer of pods that everything is observed by.
	pods cache.SharedIndexInformer
	// observe is called when a collection begins and when it ends.
	observe func() (observation, error)
	// begin is called when a collection begins, and what it returns when the collection ends.
	begin func() (end func())

	// expected is the number of pods in each namespace that a barrier waits for.
	expected map[string]int
	// nextNode is the index of the next node to prepare, among all nodes in the order of their
	// names.
	nextNode int
	// collection is the one that runs, or nil, and done are those that have ended.
	collection *collection
	done       []*collection

	// background are operations that run until they are done, or until the workload is.
	background sync.WaitGroup
	mu         sync.Mutex
	failure    error // the first error of a background operation; guarded by mu
}

// newExecutor returns an executor whose informer runs until ctx ends.
func newExecutor(ctx context.Context, p *plan, config *rest.Config) (*executor, error) {
	typed := fast(config)
	client, err := clientset.NewForConfig(typed)
	if err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(typed)
	plain.ContentType = runtime.ContentTypeJSON
	dyn, err := dynamic.NewForConfig(plain)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	e := &executor{
		plan: p, client: client, dynamic: dyn, templates: newTemplates(p.of.dir),
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		pods:   factory.Core().V1().Pods().Informer(), expected: map[string]int{},
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	return e, ctx.Err()
}

// fast returns a configuration for clients that never wait, and that use protobuf.
func fast(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = cluster.QPS, cluster.QPS
	config.ContentType = runtime.ContentTypeProtobuf
	return config
}

// runAll runs all operations, and ends those in the background.
func (e *executor) runAll(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer e.background.Wait()
	defer end()
	for i, o := range e.ops {
		err := o.run(ctx, e, i)
		if err == nil {
			err = e.failed()
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(cause, err) // a request that was cut off does not know why
		}
		if err != nil {
			e.abandonCollection()
			return fmt.Errorf("operation %d (%T): %w", i, o, err)
		}
	}
	return nil
}

// behind runs a function until it is done, or until the workload is.
func (e *executor) behind(ctx context.Context, run func() error) {
	e.background.Go(func() {
		if err := run(); err != nil && ctx.Err() == nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.failure = errors.Join(e.failure, err)
		}
	})
}

func (e *executor) failed() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failure
}

// each calls fn for 0..n-1: concurrently, or one after the other while metrics are collected, so
// that the load is the one upstream.
func (e *executor) each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	if e.collection == nil {
		return cluster.Each(ctx, n, fn)
	}
	for i := range n {
		if err := fn(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// namespace creates a namespace unless an operation has already created it.
func (e *executor) namespace(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if _, ok := e.expected[name]; ok {
		return nil
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := e.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) { // a barrier has forgotten it, or it is "default"
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	e.expected[name] = 0
	return nil
}

// namespaceOf returns the namespace of the pods of an operation.
func namespaceOf(name *string, index int) string {
	if name != nil {
		return *name
	}
	return fmt.Sprintf("namespace-%d", index)
}

// resource returns a client for objects such as a given one.
func (e *executor) resource(obj *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := e.mapper.RESTMapping(schema.GroupKind{Group: gvk.Group, Kind: gvk.Kind}, gvk.Version)
	if err != nil {
		e.mapper.Reset() // the next try asks the API server again
		return nil, err
	}
	namespaced := mapping.Scope.Name() == "namespace"
	if namespaced != (namespace != "") {
		return nil, fmt.Errorf("%s has the scope %s, but the namespace is %q", gvk.Kind, mapping.Scope.Name(),
			namespace)
	}
	if namespaced {
		return e.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return e.dynamic.Resource(mapping.Resource), nil
}

// retryTime is how long a request is repeated.
const (
	retryTime     = 20 * time.Second
	retryInterval = 200 * time.Millisecond
)

// retry repeats a request until it succeeds, or until the API server says that it never will.
func retry(ctx context.Context, request func() error) error {
	deadline := time.Now().Add(retryTime)
	for {
		err := request()
		switch {
		case err == nil, apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err),
			apierrors.IsAlreadyExists(err), time.Now().After(deadline):
			return err
		}
		if !pause(ctx, retryInterval) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// pause waits, and returns false if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// atRate calls fn for 0..n-1, a number of times each second, or without a pause if that is 0.
func atRate(ctx context.Context, perSecond, n int, fn func(i int) error) error {
	var ticks <-chan time.Time
	if perSecond > 0 {
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		ticks = ticker.C
	}
	for i := range n {
		if ticks != nil {
			select {
			case <-ticks:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := fn(i); err != nil {
			return err
		}
	}
	return nil
}
