// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// errShared refuses what would change a shared informer for all its users.
var errShared = errors.New("the informer belongs to the manager's cache and cannot be changed by one of its users")

// informer is the view that a scope gives of a shared informer, or of an empty one for a kind that
// is not served. What is not overridden goes to the shared informer.
type informer struct {
	toolscache.SharedIndexInformer
	kind  kind
	scope *Scope
	// acquired says that the source counts the scope as a user.
	acquired bool
	// handlers are those added through the scope and not removed; guarded by scope.mu.
	handlers map[toolscache.ResourceEventHandlerRegistration]*gate
}

var _ toolscache.SharedIndexInformer = (*informer)(nil)

// AddEventHandler adds a handler that ends with the scope.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler that ends with the scope. The cache does no
// resyncs, so that the period has no effect (see [CacheOptions]).
func (i *informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, resyncPeriod time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions adds a handler that ends with the scope; [ErrClosed] if that has
// ended. See also [Scope.IgnoreHandlers].
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	// The lock is held while the shared informer queues its objects for the handler, so that Close
	// either finds the registration or comes first. No handler runs under it: each has a goroutine
	// of its own.
	i.scope.mu.Lock()
	defer i.scope.mu.Unlock()
	if i.scope.closed {
		return nil, ErrClosed
	}
	if i.scope.deaf {
		return &emptyRegistration{done: alreadyDone("ignored handler of " + i.kind.String())}, nil
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

// RemoveEventHandler removes a handler that was added through this scope. It does nothing for
// others, those that were removed before included.
func (i *informer) RemoveEventHandler(registration toolscache.ResourceEventHandlerRegistration) error {
	i.scope.mu.Lock()
	defer i.scope.mu.Unlock()
	return i.removeLocked(registration)
}

// removeLocked removes one handler; scope.mu is held.
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

// GetIndexer returns the informer's store for reading. Indexers can be added to it.
func (i *informer) GetIndexer() toolscache.Indexer {
	return indexer{Indexer: i.SharedIndexInformer.GetIndexer(), source: i.scope.source}
}

// AddIndexers adds those of the indexers that the informer does not have; see Source.addIndexers.
func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	return i.scope.source.addIndexers(i.SharedIndexInformer.GetIndexer(), i.SharedIndexInformer.AddIndexers, indexers)
}

// Run does nothing: the manager runs its informers.
func (i *informer) Run(<-chan struct{}) {}

// RunWithContext does nothing: the manager runs its informers.
func (i *informer) RunWithContext(context.Context) {}

// SetTransform refuses.
func (i *informer) SetTransform(toolscache.TransformFunc) error { return errShared }

// SetWatchErrorHandler refuses.
func (i *informer) SetWatchErrorHandler(toolscache.WatchErrorHandler) error { return errShared }

// SetWatchErrorHandlerWithContext refuses.
func (i *informer) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errShared
}
