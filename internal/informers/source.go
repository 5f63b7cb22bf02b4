// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// Source provides scopes with the informers of the manager's cache. There is one for each process.
// It is safe for concurrent use.
type Source struct {
	cache  ctrlcache.Cache
	mapper meta.RESTMapper
	scheme *runtime.Scheme
	logger klog.Logger

	// handlers is the number of event handlers that scopes have added and not removed.
	handlers atomic.Int64

	// indexers guards the indexers of all informers. Indexer.GetIndexers returns the store's own
	// map, to which AddIndexers writes; it can be read under this lock.
	indexers sync.Mutex

	mu sync.Mutex // guards the rest and the values of shared; held while an informer is removed from the cache
	// shared holds the informers that scopes use or have used. Invariant: an entry without users
	// has synced.
	shared map[kind]*sharedInformer
	// late are the informers of open scopes whose kind is missing.
	late map[*informer]struct{}

	// completed has a value after Probe has completed an informer: see Completed.
	completed chan struct{}
}

// sharedInformer is an informer of the cache and the number of scopes that use it.
type sharedInformer struct {
	users    int
	informer toolscache.SharedIndexInformer // nil until the cache has returned it
}

// NewSource returns a source of the informers of cache. The cache must have [CacheOptions], and
// must run before the first scope is used. mapper must be the manager's, which the cache uses as
// well: the source calls it before the cache does, because the cache waits for discovery under a
// lock that all its readers need. scheme has the types of typed informers (client-go's and
// livesched's).
func NewSource(cache ctrlcache.Cache, mapper meta.RESTMapper, scheme *runtime.Scheme, logger klog.Logger) *Source {
	return &Source{
		cache:  cache,
		mapper: mapper,
		scheme: scheme,
		logger: logger,
		shared: map[kind]*sharedInformer{},
		late:   map[*informer]struct{}{},

		completed: make(chan struct{}, 1),
	}
}

// Completed returns a channel that has a value after kinds that were missing in open scopes are
// there: see Probe. It is for one reader.
func (s *Source) Completed() <-chan struct{} { return s.completed }

// Handlers returns the number of event handlers that were added through any scope and have not been
// removed, also not by closing the scope.
func (s *Source) Handlers() int { return int(s.handlers.Load()) }

// NewScope returns a new scope without informers, for livesched's own handlers. The caller must
// close it. A handler that panics ends the process, because its data can no longer be trusted.
func (s *Source) NewScope() *Scope { return s.NewForeignScope(nil) }

// NewForeignScope is NewScope for foreign handlers, such as the handlers of plugins. When a handler
// panics, report is called on the goroutine of the handler, and the process continues.
func (s *Source) NewForeignScope(report func(HandlerPanic)) *Scope {
	return &Scope{
		report:    report,
		source:    s,
		informers: map[kind]*informer{},
		failures:  map[string]error{},
	}
}

// acquire returns the shared informer of a kind and counts one more user, until release. It may
// wait for the API server's discovery, for as long as the mapper's client does. For a kind that the
// server does not serve, it returns an error for which meta.IsNoMatchError is true.
func (s *Source) acquire(k kind) (toolscache.SharedIndexInformer, error) {
	s.mu.Lock()
	shared := s.shared[k]
	if shared == nil {
		shared = &sharedInformer{}
		s.shared[k] = shared
	}
	shared.users++ // from here on, the informer is not removed
	known := shared.informer
	s.mu.Unlock()

	// Every build but the first returns here. It needs neither the mapper's lock nor the cache's,
	// which other goroutines may hold while they wait for the API server.
	if known != nil && !known.IsStopped() {
		return known, nil
	}
	found, err := s.lookup(k)
	if err != nil {
		s.release(k)
		return nil, err
	}
	s.mu.Lock()
	shared.informer = found
	s.mu.Unlock()
	return found, nil
}

// lookup requests the informer of a kind from the cache, which starts a new one.
func (s *Source) lookup(k kind) (toolscache.SharedIndexInformer, error) {
	// The cache calls the mapper as well, but under its lock. After this call the mapper has the
	// answer.
	if _, err := s.mapper.RESTMapping(k.GroupKind(), k.Version); err != nil {
		return nil, fmt.Errorf("informer for %s: %w", k, err)
	}
	obj, err := k.newObject(s.scheme)
	if err != nil {
		return nil, fmt.Errorf("informer for %s: %w", k, err)
	}
	// The context would limit only the wait for the sync, which Scope.WaitForSync does.
	found, err := s.cache.GetInformer(context.Background(), obj, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("informer for %s: %w", k, err)
	}
	informer, ok := found.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("informer for %s: the cache returned a %T, which has no store: a scheduler's cache "+
			"must not be restricted to namespaces", k, found)
	}
	return informer, nil
}

// release removes one user of an informer. Without users, an informer that never synced is removed
// from the cache: it belongs to a failed build, and would keep sending requests that the API server
// forbids. An informer that has synced stays: it is up to date, and not only scopes may use it.
func (s *Source) release(k kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := s.shared[k]
	shared.users--
	if shared.users > 0 || (shared.informer != nil && shared.informer.HasSynced()) {
		return
	}
	delete(s.shared, k)
	if shared.informer == nil {
		return
	}
	obj, err := k.newObject(s.scheme)
	if err == nil {
		// Under the lock, so that the next user gets a new informer instead of the stopping one.
		err = s.cache.RemoveInformer(context.Background(), obj)
	}
	if err != nil {
		s.logger.Error(err, "Failed to remove an unsynced informer from the cache", "kind", k.String())
	}
}

// addIndexers adds the indexers that the store does not have. An index with the same name and
// function is not an error, since profiles add their indexers again in each build and nothing
// removes an index. An index with the same name and another function is an error, and then nothing
// is added. Functions are the same if their code is: an index function must not depend on a
// plugin's arguments.
func (s *Source) addIndexers(to toolscache.Indexer, add func(toolscache.Indexers) error,
	indexers toolscache.Indexers) error {
	s.indexers.Lock()
	defer s.indexers.Unlock()
	return addMissingIndexers(to, add, indexers)
}

// moveIndexers adds the indexers of an empty store to an informer, and calls then before others can
// be added.
func (s *Source) moveIndexers(from toolscache.Indexer, to toolscache.SharedIndexInformer, then func()) error {
	s.indexers.Lock()
	defer s.indexers.Unlock()
	if err := addMissingIndexers(to.GetIndexer(), to.AddIndexers, from.GetIndexers()); err != nil {
		return err
	}
	then()
	return nil
}

// addMissingIndexers is addIndexers under the lock.
func addMissingIndexers(to toolscache.Indexer, add func(toolscache.Indexers) error,
	indexers toolscache.Indexers) error {
	existing := to.GetIndexers()
	missing := toolscache.Indexers{}
	for name, function := range indexers {
		switch have, ok := existing[name]; {
		case !ok:
			missing[name] = function
		case !sameCode(have, function):
			return fmt.Errorf("indexer conflict: index %q exists with another function", name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return add(missing)
}

// getIndexers returns a copy of the store's indexers.
func (s *Source) getIndexers(from toolscache.Indexer) toolscache.Indexers {
	s.indexers.Lock()
	defer s.indexers.Unlock()
	return maps.Clone(from.GetIndexers())
}
