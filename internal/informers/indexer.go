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
	// informer is the shared informer whose store this is. client-go wraps the informers of a
	// factory, but not their stores.
	informer toolscache.SharedIndexInformer
}

var _ toolscache.Indexer = indexer{}

// Only the informer writes to its store: the methods that do return an error, or do nothing.

func (indexer) Add(any) error               { return errShared }
func (indexer) Update(any) error            { return errShared }
func (indexer) Delete(any) error            { return errShared }
func (indexer) Replace([]any, string) error { return errShared }
func (indexer) Resync() error               { return errShared }
func (indexer) Bookmark(string)             {}

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
