// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	toolscache "k8s.io/client-go/tools/cache"
)

// emptyInformer replaces an informer that is not available. It is synced, always empty, and has no
// goroutine. client-go's informer would retry forever and never sync. See also lateInformer.
//
// Scopes add handlers by AddEventHandlerWithOptions only: see informer.
type emptyInformer struct {
	toolscache.SharedIndexInformer // never runs
	done                           toolscache.DoneChecker
}

func newEmptyInformer(k kind) *emptyInformer {
	return &emptyInformer{
		SharedIndexInformer: toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, nil, 0,
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
func (e *EmptyRegistration) HasSyncedChecker() toolscache.DoneChecker { return e.Done }

// AlreadyDone is a checker that is always done. The string is its name.
type AlreadyDone string

var closedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Name implements DoneChecker.
func (a AlreadyDone) Name() string { return string(a) }

// Done implements DoneChecker.
func (AlreadyDone) Done() <-chan struct{} { return closedChannel }

func (e *emptyInformer) AddEventHandlerWithOptions(toolscache.ResourceEventHandler,
	toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return &EmptyRegistration{Done: e.done}, nil
}

func (*emptyInformer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	return nil
}

func (e *emptyInformer) GetController() toolscache.Controller     { return e }
func (*emptyInformer) HasSynced() bool                            { return true }
func (e *emptyInformer) HasSyncedChecker() toolscache.DoneChecker { return e.done }
