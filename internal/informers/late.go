// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"slices"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"
)

// lateInformer is the informer of a kind that the API server does not serve. It is empty and counts
// as synced until become gives it the shared informer of the kind, whose objects are then reported
// to its handlers as new.
//
// Readers use current without a lock. The scope calls the methods that add and remove handlers, and
// become, under its lock, which guards waiting.
type lateInformer struct {
	*emptyInformer // until there is a shared informer
	shared         atomic.Pointer[toolscache.SharedIndexInformer]
	// waiting are the handlers that were added before.
	waiting []*lateRegistration
}

var _ toolscache.SharedIndexInformer = (*lateInformer)(nil)

func newLateInformer(k kind) *lateInformer { return &lateInformer{emptyInformer: newEmptyInformer(k)} }

// lateRegistration is a handler that was added before there was a shared informer. It counts as
// synced: there was nothing to report.
type lateRegistration struct {
	EmptyRegistration
	handler toolscache.ResourceEventHandler
	options toolscache.HandlerOptions
	// current is the registration at the shared informer, nil until there is one.
	current toolscache.ResourceEventHandlerRegistration
}

// current returns the informer that answers now.
func (l *lateInformer) current() toolscache.SharedIndexInformer {
	if shared := l.shared.Load(); shared != nil {
		return *shared
	}
	return l.emptyInformer
}

// isEmpty reports whether there is no shared informer yet.
func (l *lateInformer) isEmpty() bool { return l.shared.Load() == nil }

// become makes shared, which has synced, answer from now on.
func (l *lateInformer) become(shared toolscache.SharedIndexInformer, source *Source) error {
	if err := source.moveIndexers(l.emptyInformer.GetIndexer(), shared,
		func() { l.shared.Store(&shared) }); err != nil {
		return err
	}
	for _, r := range l.waiting {
		current, err := shared.AddEventHandlerWithOptions(r.handler, r.options)
		if err != nil {
			return err
		}
		r.current = current
	}
	l.waiting = nil
	return nil
}

func (l *lateInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler,
	options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	if !l.isEmpty() {
		return l.current().AddEventHandlerWithOptions(handler, options)
	}
	r := &lateRegistration{EmptyRegistration: EmptyRegistration{Done: l.done}, handler: handler, options: options}
	l.waiting = append(l.waiting, r)
	return r, nil
}

func (l *lateInformer) RemoveEventHandler(registration toolscache.ResourceEventHandlerRegistration) error {
	r, late := registration.(*lateRegistration)
	if !late {
		return l.current().RemoveEventHandler(registration)
	}
	if r.current != nil {
		return l.current().RemoveEventHandler(r.current)
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(waiting *lateRegistration) bool { return waiting == r })
	return nil
}

func (l *lateInformer) GetStore() toolscache.Store { return l.GetIndexer() }
func (l *lateInformer) GetIndexer() toolscache.Indexer {
	return lateStore{l.emptyInformer.GetIndexer(), l}
}
func (l *lateInformer) AddIndexers(indexers toolscache.Indexers) error {
	return l.current().AddIndexers(indexers)
}
func (l *lateInformer) GetController() toolscache.Controller { return l.current().GetController() }
func (l *lateInformer) HasSynced() bool                      { return l.current().HasSynced() }
func (l *lateInformer) HasSyncedChecker() toolscache.DoneChecker {
	return l.current().HasSyncedChecker()
}
func (l *lateInformer) LastSyncResourceVersion() string { return l.current().LastSyncResourceVersion() }
func (l *lateInformer) IsStopped() bool                 { return l.current().IsStopped() }

// lateStore is the store of a late informer: listers keep it, and it reads from the informer that
// answers at the time. It is for reading: see indexer.
type lateStore struct {
	toolscache.Indexer // of the empty informer
	of                 *lateInformer
}

func (l lateStore) now() toolscache.Indexer { return l.of.current().GetIndexer() }

func (l lateStore) List() []any        { return l.now().List() }
func (l lateStore) ListKeys() []string { return l.now().ListKeys() }
func (l lateStore) LastStoreSyncResourceVersion() string {
	return l.now().LastStoreSyncResourceVersion()
}
func (l lateStore) Get(obj any) (any, bool, error) { return l.now().Get(obj) }
func (l lateStore) GetByKey(key string) (any, bool, error) {
	return l.now().GetByKey(key)
}
func (l lateStore) Index(name string, obj any) ([]any, error) { return l.now().Index(name, obj) }
func (l lateStore) IndexKeys(name, value string) ([]string, error) {
	return l.now().IndexKeys(name, value)
}
func (l lateStore) ListIndexFuncValues(name string) []string {
	return l.now().ListIndexFuncValues(name)
}
func (l lateStore) ByIndex(name, value string) ([]any, error) { return l.now().ByIndex(name, value) }
func (l lateStore) GetIndexers() toolscache.Indexers          { return l.now().GetIndexers() }
func (l lateStore) AddIndexers(indexers toolscache.Indexers) error {
	return l.now().AddIndexers(indexers)
}
