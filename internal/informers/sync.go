// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
)

// SyncError names the informers that were not ready when a wait ended.
type SyncError struct {
	// Kinds are the kinds of the informers, sorted.
	Kinds []UnsyncedKind
	// Cause is the context's cause.
	Cause error
}

// UnsyncedKind is a kind whose informer was not ready.
type UnsyncedKind struct {
	schema.GroupVersionKind
	// Listed means that the informer had its first list, but event handlers had not received all
	// of it.
	Listed bool
	// Err is the last error of the kind's list or watch, nil if there was none.
	Err error
}

// Error names every kind, with the last error of its list or watch.
func (s *SyncError) Error() string {
	kinds := make([]string, 0, len(s.Kinds))
	for _, k := range s.Kinds {
		switch {
		case k.Listed:
			kinds = append(kinds, display(k.GroupVersionKind)+" (its event handlers are behind)")
		case k.Err != nil:
			kinds = append(kinds, fmt.Sprintf("%s (%v)", display(k.GroupVersionKind), k.Err))
		default:
			kinds = append(kinds, display(k.GroupVersionKind))
		}
	}
	return fmt.Sprintf("informers did not sync: %s: %v", strings.Join(kinds, ", "), s.Cause)
}

// Unwrap returns the cause.
func (s *SyncError) Unwrap() error { return s.Cause }

// WaitForSync waits until every informer of the scope has its first list, and every event handler
// that was added through the scope has received all of it. It returns the error of [Scope.Err]
// immediately, [ErrClosed] on a closed scope, and a [*SyncError] if ctx ends first. It does not
// wait for informers and handlers that are added later.
func (s *Scope) WaitForSync(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	closed, used := s.closed, slices.Collect(maps.Values(s.informers))
	var checkers []toolscache.DoneChecker
	for _, i := range used {
		checkers = append(checkers, i.HasSyncedChecker())
		checkers = append(checkers, i.handlerCheckersLocked()...)
	}
	s.mu.Unlock()

	if closed {
		return ErrClosed
	}
	if toolscache.WaitFor(ctx, "", checkers...) {
		return nil
	}
	if unsynced := s.unsynced(used); len(unsynced) > 0 {
		return &SyncError{Kinds: unsynced, Cause: context.Cause(ctx)}
	}
	return nil // the last one became ready while ctx ended
}

func (i *informer) handlerCheckersLocked() []toolscache.DoneChecker {
	var checkers []toolscache.DoneChecker
	for registration := range i.handlers {
		checkers = append(checkers, registration.HasSyncedChecker())
	}
	return checkers
}

// unsynced returns the informers that are not ready, sorted by kind.
func (s *Scope) unsynced(informers []*informer) []UnsyncedKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	notDone := func(c toolscache.DoneChecker) bool { return !toolscache.IsDone(c) }
	var unsynced []UnsyncedKind
	for _, i := range informers {
		listed := i.HasSynced()
		if !listed || slices.ContainsFunc(i.handlerCheckersLocked(), notDone) {
			unsynced = append(unsynced, UnsyncedKind{
				GroupVersionKind: i.kind.GroupVersionKind,
				Listed:           listed,
				Err:              lastWatchError(i.SharedIndexInformer),
			})
		}
	}
	slices.SortFunc(unsynced, func(a, b UnsyncedKind) int { return cmp.Compare(a.String(), b.String()) })
	return unsynced
}

// Start does nothing: the manager starts informers when they are requested.
func (s *Scope) Start(<-chan struct{}) {}

// StartWithContext does nothing: the manager starts informers when they are requested.
func (s *Scope) StartWithContext(context.Context) {}

// Shutdown does nothing: informers end with the manager, and Close removes the scope's handlers.
func (s *Scope) Shutdown() {}

// WaitForCacheSync waits for the informers, not for handlers, as client-go's factory does.
// WaitForSync waits for both.
func (s *Scope) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return s.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext waits for the informers, not for handlers, as client-go's factory
// does. The result's error names informers that are not available. WaitForSync waits for both.
func (s *Scope) WaitForCacheSyncWithContext(ctx context.Context) toolscache.SyncResult {
	s.mu.Lock()
	used := slices.Collect(maps.Values(s.informers))
	s.mu.Unlock()

	checkers := make([]toolscache.DoneChecker, 0, len(used))
	for _, i := range used {
		checkers = append(checkers, i.HasSyncedChecker())
	}
	result := toolscache.SyncResult{Synced: map[reflect.Type]bool{}, Err: s.Err()}
	if !toolscache.WaitFor(ctx, "", checkers...) && result.Err == nil {
		result.Err = context.Cause(ctx)
	}
	for _, i := range used {
		object, err := i.kind.newObject(s.source.scheme)
		if err != nil {
			continue // not an API object: Err reports it
		}
		objectType := reflect.TypeOf(object)
		synced, seen := result.Synced[objectType]
		result.Synced[objectType] = i.HasSynced() && (synced || !seen)
	}
	return result
}
