// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"reflect"

	toolscache "k8s.io/client-go/tools/cache"
)

// indexer is the store of a shared informer for reading. As everywhere in client-go, callers must
// not change the objects.
type indexer struct {
	toolscache.Indexer
	source *Source
}

var _ toolscache.Indexer = indexer{}

// Add returns an error: only the informer writes to its store.
func (indexer) Add(any) error { return errShared }

// Update returns an error: only the informer writes to its store.
func (indexer) Update(any) error { return errShared }

// Delete returns an error: only the informer writes to its store.
func (indexer) Delete(any) error { return errShared }

// Replace returns an error: only the informer writes to its store.
func (indexer) Replace([]any, string) error { return errShared }

// Resync returns an error: only the informer writes to its store.
func (indexer) Resync() error { return errShared }

// Bookmark does nothing, because it cannot return an error: only the informer sets the resource
// version of its store.
func (indexer) Bookmark(string) {}

// AddIndexers adds the indexers that the store does not have: see Source.addIndexers.
func (i indexer) AddIndexers(indexers toolscache.Indexers) error {
	return i.source.addIndexers(i.Indexer, i.Indexer.AddIndexers, indexers)
}

// GetIndexers returns a copy of the store's indexers.
func (i indexer) GetIndexers() toolscache.Indexers { return i.source.getIndexers(i.Indexer) }

// sameCode reports whether two index functions have the same code. Go cannot compare functions;
// closures of one function literal count as the same.
func sameCode(a, b toolscache.IndexFunc) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
