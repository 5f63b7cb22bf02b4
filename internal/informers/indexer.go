// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"reflect"

	toolscache "k8s.io/client-go/tools/cache"
)

// indexer is the store of a shared informer for reading. Objects are the store's own, as everywhere
// in client-go: whoever reads one must not change it.
type indexer struct {
	toolscache.Indexer
	source *Source
}

var _ toolscache.Indexer = indexer{}

// Add refuses: only the informer writes to its store.
func (indexer) Add(any) error { return errShared }

// Update refuses: only the informer writes to its store.
func (indexer) Update(any) error { return errShared }

// Delete refuses: only the informer writes to its store.
func (indexer) Delete(any) error { return errShared }

// Replace refuses: only the informer writes to its store.
func (indexer) Replace([]any, string) error { return errShared }

// Resync refuses: only the informer writes to its store.
func (indexer) Resync() error { return errShared }

// Bookmark does nothing, having no way to refuse: only the informer moves its store's resource
// version on.
func (indexer) Bookmark(string) {}

// AddIndexers adds those of the indexers that the store does not have; see Source.addIndexers.
func (i indexer) AddIndexers(indexers toolscache.Indexers) error {
	return i.source.addIndexers(i.Indexer, i.Indexer.AddIndexers, indexers)
}

// GetIndexers returns a copy of the store's indexers.
func (i indexer) GetIndexers() toolscache.Indexers { return i.source.getIndexers(i.Indexer) }

// sameCode compares index functions, which Go itself cannot. Closures of one function literal are
// the same.
func sameCode(a, b toolscache.IndexFunc) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
