// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
)

// errShared is the error of methods that would change a shared informer for all its users.
var errShared = errors.New("the informer belongs to the manager's cache and cannot be changed by one of its users")

// informer is a scope's view of a shared informer, or of an empty one for a kind that is not
// served. Methods that are not overridden come from the shared informer.
type informer struct {
	toolscache.SharedIndexInformer
	kind  kind
	scope *Scope
	// acquired is the kind as whose user the source counts the scope, nil if it does not. It
	// differs from kind if that was unknown at first. scope.mu guards it.
	acquired *kind
	// handlers are the handlers that were added through the scope and not removed. scope.mu guards
	// it.
	handlers map[toolscache.ResourceEventHandlerRegistration]*gate
}

var _ toolscache.SharedIndexInformer = (*informer)(nil)

// Serves reports whether the API server has listed the kind of an informer of a scope, or is about
// to: it does not if it does not serve the kind, or forbids to list it.
func Serves(i toolscache.SharedIndexInformer) bool {
	if i.LastSyncResourceVersion() != "" {
		return true
	}
	store, ok := i.GetIndexer().(indexer)
	if !ok || isPlaceholder(store.informer) {
		return false
	}
	// The first list reaches the store before the resource version is set: the informer may have
	// synced without one.
	return i.HasSynced() || !apierrors.IsForbidden(lastWatchError(store.informer))
}

// isPlaceholder reports whether an informer is empty because there is no shared informer.
func isPlaceholder(i toolscache.SharedIndexInformer) bool {
	switch i := i.(type) {
	case *emptyInformer:
		return true
	case *lateInformer:
		return i.isEmpty()
	}
	return false
}

// AddEventHandler adds a handler until the scope is closed.
func (i *informer) AddEventHandler(
	handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler until the scope is closed. The period has no
// effect, because the cache does not resync (see [CacheOptions]).
func (i *informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler,
	resyncPeriod time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions adds a handler until the scope is closed. It returns [ErrClosed] if
// the scope is closed. See also [Scope.IgnoreHandlers].
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler,
	options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	// The lock is held while the shared informer queues its objects for the handler, so that Close
	// either finds the registration or runs before. No handler runs under the lock: each has its
	// own goroutine.
	i.scope.mu.Lock()
	defer i.scope.mu.Unlock()
	if i.scope.closed {
		return nil, ErrClosed
	}
	if i.scope.deaf {
		return &EmptyRegistration{Done: AlreadyDone("ignored handler of " + i.kind.String())}, nil
	}
	if options.Logger == nil {
		options.Logger = &i.scope.source.logger
	}
	gate := &gate{handler: handler, report: i.scope.report, owner: i.scope.owner, kind: i.kind.GroupVersionKind}
	registration, err := i.SharedIndexInformer.AddEventHandlerWithOptions(gate, options)
	if err != nil {
		return nil, err
	}
	i.handlers[registration] = gate
	i.scope.source.handlers.Add(1)
	return registration, nil
}

// RemoveEventHandler removes a handler that was added through this scope. It does nothing for other
// handlers, or those that were removed before.
func (i *informer) RemoveEventHandler(registration toolscache.ResourceEventHandlerRegistration) error {
	i.scope.mu.Lock()
	defer i.scope.mu.Unlock()
	return i.removeLocked(registration)
}

// removeLocked removes one handler. The caller holds scope.mu.
func (i *informer) removeLocked(registration toolscache.ResourceEventHandlerRegistration) error {
	gate, ok := i.handlers[registration]
	if !ok {
		return nil
	}
	gate.closed.Store(true)
	delete(i.handlers, registration)
	i.scope.source.handlers.Add(-1)
	return i.SharedIndexInformer.RemoveEventHandler(registration)
}

// GetStore returns the informer's store for reading.
func (i *informer) GetStore() toolscache.Store { return i.GetIndexer() }

// GetIndexer returns the informer's store for reading and for adding indexers.
func (i *informer) GetIndexer() toolscache.Indexer {
	return indexer{i.SharedIndexInformer.GetIndexer(), i.scope.source, i.SharedIndexInformer}
}

// AddIndexers adds the indexers that the informer does not have: see Source.addIndexers.
func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	return i.scope.source.addIndexers(i.SharedIndexInformer.GetIndexer(), i.SharedIndexInformer.AddIndexers, indexers)
}

// Only the manager runs and changes its informers.

func (i *informer) Run(<-chan struct{})                                     {}
func (i *informer) RunWithContext(context.Context)                          {}
func (i *informer) SetTransform(toolscache.TransformFunc) error             { return errShared }
func (i *informer) SetWatchErrorHandler(toolscache.WatchErrorHandler) error { return errShared }
func (i *informer) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errShared
}
