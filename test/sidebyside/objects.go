// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package sidebyside

import (
	"context"
	"sync"

	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientinformers "k8s.io/client-go/informers"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/test/objects"
)

// Objects holds the stores of informers that never run. kube-scheduler reads them through
// client-go's factory, and livesched through a manager's cache that returns the same informers.
type Objects struct {
	clientinformers.SharedInformerFactory
	told *told
}

// NewObjects returns empty stores.
func NewObjects() Objects {
	return NewObjectsOf()
}

// NewObjectsOf returns objects as NewObjects does. An informer that the test runs lists those given
// here.
func NewObjectsOf(listed ...runtime.Object) Objects {
	return Objects{objects.NewInformers(fakeclient.NewClientset(listed...)), &told{}}
}

// managerCache serves Objects as a manager's cache does.
type managerCache struct {
	ctrlcache.Cache // nil: methods that are not overridden panic
	objects         Objects
}

func (c managerCache) GetInformer(_ context.Context, obj client.Object,
	_ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	informer, err := c.objects.informer(obj)
	switch obj.(type) {
	case *resourcev1.ResourceClaim:
		return heard{filled{informer}}, err
	case *policyv1.PodDisruptionBudget, *resourcev1.ResourceSlice, *storagev1.CSINode, *storagev1.VolumeAttachment,
		*storagev1.CSIStorageCapacity:
		return following{filled{informer}, c.objects.told}, err
	}
	return filled{informer}, err
}

// told are the handlers that are called for objects that are put or removed by hand.
type told struct {
	mu       sync.Mutex // guards handlers
	handlers map[toolscache.Store][]toolscache.ResourceEventHandler
}

// add adds a handler, which gets the objects in the store first.
func (t *told) add(store toolscache.Store, handler toolscache.ResourceEventHandler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handlers == nil {
		t.handlers = map[toolscache.Store][]toolscache.ResourceEventHandler{}
	}
	t.handlers[store] = append(t.handlers[store], handler)
	for _, obj := range store.List() {
		handler.OnAdd(obj, true)
	}
}

// tell calls the handlers of a store after a change from before to now; either may be nil.
func (t *told) tell(store toolscache.Store, before, now any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, handler := range t.handlers[store] {
		switch {
		case now == nil:
			handler.OnDelete(before)
		case before == nil:
			handler.OnAdd(now, false)
		default:
			handler.OnUpdate(before, now)
		}
	}
}

// following is an informer of objects that livesched follows by events, and does not look up.
type following struct {
	filled
	told *told
}

func (f following) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler,
	_ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	f.told.add(f.GetStore(), handler)
	return &informers.EmptyRegistration{Done: done}, nil
}

// heard calls its handlers if the test runs the informer. The plugin DynamicResources knows only
// claims that it hears of.
type heard struct{ filled }

// AddEventHandlerWithOptions adds a handler. It counts as synced, whether or not the test runs the
// informer.
func (h heard) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler,
	options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	_, err := h.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
	return &informers.EmptyRegistration{Done: done}, err
}

func (managerCache) RemoveInformer(context.Context, client.Object) error { return nil }

const done informers.AlreadyDone = "filled by hand"

// filled is an informer that counts as synced, because its store is complete. It never calls its
// handlers, which informers.Scope adds with options.
type filled struct{ toolscache.SharedIndexInformer }

func (filled) HasSynced() bool                                                      { return true }
func (filled) HasSyncedChecker() toolscache.DoneChecker                             { return done }
func (filled) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }
func (filled) AddEventHandlerWithOptions(toolscache.ResourceEventHandler,
	toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return &informers.EmptyRegistration{Done: done}, nil
}

// Put adds objects, or newer versions of them.
func (a Objects) Put(objects ...runtime.Object) error {
	for _, obj := range objects {
		store, err := a.store(obj)
		if err != nil {
			return err
		}
		before, exists, err := store.Get(obj)
		if err == nil {
			err = store.Update(obj)
		}
		if err != nil {
			return err
		}
		if !exists {
			before = nil
		}
		a.told.tell(store, before, obj)
	}
	return nil
}

// Remove deletes an object.
func (a Objects) Remove(obj runtime.Object) error {
	store, err := a.store(obj)
	if err != nil {
		return err
	}
	if err := store.Delete(obj); err != nil {
		return err
	}
	a.told.tell(store, obj, nil)
	return nil
}

func (a Objects) store(obj runtime.Object) (toolscache.Indexer, error) {
	informer, err := a.informer(obj)
	if err != nil {
		return nil, err
	}
	return informer.GetIndexer(), nil
}

func (a Objects) informer(obj runtime.Object) (toolscache.SharedIndexInformer, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	generic, err := a.ForResource(resource)
	if err != nil {
		return nil, err
	}
	return generic.Informer(), nil
}
