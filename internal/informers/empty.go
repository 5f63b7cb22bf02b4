// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// emptyInformer replaces an informer that is not available. It is synced, always empty, and has no
// goroutine. client-go's informer would retry forever and never sync. See also lateInformer.
type emptyInformer struct {
	store toolscache.Indexer
	done  toolscache.DoneChecker
}

var _ toolscache.SharedIndexInformer = (*emptyInformer)(nil)

func newEmptyInformer(k kind) *emptyInformer {
	return &emptyInformer{
		store: toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}),
		done: AlreadyDone("empty informer of " + k.String()),
	}
}

// EmptyRegistration is the registration of a handler that is never called. Each is a distinct
// pointer.
type EmptyRegistration struct{ Done toolscache.DoneChecker }

// HasSynced implements ResourceEventHandlerRegistration.
func (*EmptyRegistration) HasSynced() bool { return true }

// HasSyncedChecker implements ResourceEventHandlerRegistration.
func (r *EmptyRegistration) HasSyncedChecker() toolscache.DoneChecker { return r.Done }

// AlreadyDone is a checker that is always done. The string is its name.
type AlreadyDone string

var closedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Name implements DoneChecker.
func (d AlreadyDone) Name() string { return string(d) }

// Done implements DoneChecker.
func (AlreadyDone) Done() <-chan struct{} { return closedChannel }

func (e *emptyInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return &EmptyRegistration{Done: e.done}, nil
}

func (e *emptyInformer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return e.AddEventHandler(handler)
}

func (e *emptyInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return e.AddEventHandler(handler)
}

func (*emptyInformer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	return nil
}

func (e *emptyInformer) GetStore() toolscache.Store     { return e.store }
func (e *emptyInformer) GetIndexer() toolscache.Indexer { return e.store }
func (e *emptyInformer) AddIndexers(indexers toolscache.Indexers) error {
	return e.store.AddIndexers(indexers)
}
func (e *emptyInformer) GetController() toolscache.Controller                  { return e }
func (*emptyInformer) Run(<-chan struct{})                                     {}
func (*emptyInformer) RunWithContext(context.Context)                          {}
func (*emptyInformer) HasSynced() bool                                         { return true }
func (e *emptyInformer) HasSyncedChecker() toolscache.DoneChecker              { return e.done }
func (*emptyInformer) LastSyncResourceVersion() string                         { return "" }
func (*emptyInformer) IsStopped() bool                                         { return false }
func (*emptyInformer) SetTransform(toolscache.TransformFunc) error             { return errShared }
func (*emptyInformer) SetWatchErrorHandler(toolscache.WatchErrorHandler) error { return errShared }
func (*emptyInformer) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errShared
}
