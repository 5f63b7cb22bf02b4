// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fixed provides informers of objects that never change, without an API server.
package fixed

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/livesched/livesched/internal/informers"
)

// NewSource returns a source of informers that have the objects, which must be of kinds of
// client-go, and nothing else. Informers of other kinds of client-go are empty, and all others are
// missing.
func NewSource(objects []client.Object) (*informers.Source, error) {
	c := &cache{informers: map[schema.GroupVersionKind]*informer{}}
	for _, object := range objects {
		i, err := c.informerOf(object)
		if err != nil {
			return nil, err
		}
		if err := i.GetIndexer().Add(object); err != nil {
			return nil, fmt.Errorf("adding %s %s: %w", object.GetNamespace(), object.GetName(), err)
		}
	}
	return informers.NewSource(c, Kinds(), scheme.Scheme, logr.Discard()), nil
}

// Kinds returns the mapper of an API server that serves the kinds of client-go.
var Kinds = sync.OnceValue(func() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.Scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	return mapper
})

// cache takes the place of a manager's cache. It has what an informers.Source calls.
type cache struct {
	ctrlcache.Cache // nil

	mu        sync.Mutex // guards informers
	informers map[schema.GroupVersionKind]*informer
}

func (c *cache) GetInformer(_ context.Context, object client.Object,
	_ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return c.informerOf(object)
}

func (*cache) RemoveInformer(context.Context, client.Object) error { return nil }

func (c *cache) informerOf(object client.Object) (*informer, error) {
	kind, err := apiutil.GVKForObject(object, scheme.Scheme)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.informers[kind] == nil {
		byNamespace := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
		c.informers[kind] = &informer{toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, object, 0,
			byNamespace)}
	}
	return c.informers[kind], nil
}

const unchanged informers.AlreadyDone = "objects that do not change"

// informer is an informer that never runs. Its store is complete when informers.Scope adds a
// handler, with options, which gets the objects at once.
type informer struct{ toolscache.SharedIndexInformer }

func (*informer) HasSynced() bool                          { return true }
func (*informer) HasSyncedChecker() toolscache.DoneChecker { return unchanged }

func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler,
	_ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	r := registration(make(chan struct{}))
	objects := i.GetStore().List()
	go func() {
		defer close(r)
		for _, object := range objects {
			handler.OnAdd(object, true)
		}
	}()
	return r, nil
}

func (*informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// registration is a handler. It is closed when the handler has got all objects.
type registration chan struct{}

func (r registration) HasSynced() bool {
	select {
	case <-r:
		return true
	default:
		return false
	}
}

func (r registration) HasSyncedChecker() toolscache.DoneChecker { return r }
func (registration) Name() string                               { return string(unchanged) }
func (r registration) Done() <-chan struct{}                    { return r }
