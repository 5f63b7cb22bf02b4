// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package sidebyside

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientinformers "k8s.io/client-go/informers"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Objects holds the stores of informers that never run. kube-scheduler reads them through
// client-go's factory, and livesched through a manager's cache that returns the same informers.
type Objects struct {
	clientinformers.SharedInformerFactory
}

// NewObjects returns empty stores.
func NewObjects() Objects {
	return Objects{clientinformers.NewSharedInformerFactory(&fakeclient.Clientset{}, 0)}
}

// managerCache serves Objects as a manager's cache does.
type managerCache struct {
	ctrlcache.Cache // nil: methods that are not overridden panic
	objects         Objects
}

func (c managerCache) GetInformer(_ context.Context, obj client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	generic, err := c.objects.ForResource(resource)
	if err != nil {
		return nil, err
	}
	return filled{generic.Informer()}, nil
}

func (managerCache) RemoveInformer(context.Context, client.Object) error { return nil }

// everyKind returns the mapper of an API server that serves every kind.
var everyKind = sync.OnceValue(func() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.Scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	return mapper
})

// filled is an informer that counts as synced, because its store is complete. It never calls its
// handlers.
type filled struct{ toolscache.SharedIndexInformer }

func (filled) HasSynced() bool                                                      { return true }
func (filled) HasSyncedChecker() toolscache.DoneChecker                             { return done{} }
func (filled) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }
func (filled) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return &registration{}, nil
}

func (filled) AddEventHandlerWithResyncPeriod(toolscache.ResourceEventHandler, time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return &registration{}, nil
}

func (filled) AddEventHandlerWithOptions(toolscache.ResourceEventHandler, toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return &registration{}, nil
}

// registration is the registration of a handler that has seen everything. Each is a distinct
// pointer.
type registration struct{ _ byte }

func (*registration) HasSynced() bool                          { return true }
func (*registration) HasSyncedChecker() toolscache.DoneChecker { return done{} }

type done struct{}

var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (done) Name() string          { return "filled by hand" }
func (done) Done() <-chan struct{} { return closed }

// Put adds objects, or newer versions of them.
func (a Objects) Put(objects ...runtime.Object) error {
	for _, obj := range objects {
		store, err := a.store(obj)
		if err != nil {
			return err
		}
		if err := store.Update(obj); err != nil {
			return err
		}
	}
	return nil
}

// Remove deletes an object.
func (a Objects) Remove(obj runtime.Object) error {
	store, err := a.store(obj)
	if err != nil {
		return err
	}
	return store.Delete(obj)
}

func (a Objects) store(obj runtime.Object) (toolscache.Indexer, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	generic, err := a.ForResource(resource)
	if err != nil {
		return nil, err
	}
	return generic.Informer().GetIndexer(), nil
}
