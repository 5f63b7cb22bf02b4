// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// Source hands out the informers of the manager's cache to scopes. One per process; safe for
// concurrent use.
type Source struct {
	cache  ctrlcache.Cache
	mapper meta.RESTMapper
	scheme *runtime.Scheme
	logger klog.Logger

	// handlers is the number of event handlers that scopes have added and not removed.
	handlers atomic.Int64

	// indexers serialises what scopes do with the indexers of any informer. Indexer.GetIndexers
	// returns the store's own map, which AddIndexers writes to: under this lock it can be read.
	indexers sync.Mutex

	mu sync.Mutex // guards shared and what is in it; held while an informer is removed from the cache
	// shared are the informers that a scope uses or has used. Invariant: an entry without users has
	// synced.
	shared map[kind]*sharedInformer
}

// sharedInformer is an informer of the cache with the number of scopes that use it.
type sharedInformer struct {
	users    int
	informer toolscache.SharedIndexInformer // nil until the cache has returned it
}

// NewSource returns a source of the informers of cache, which has to have been made with
// [CacheOptions] and to be running before the first scope is used. mapper has to be the manager's,
// which the cache uses too: the source asks it first, since the cache holds a lock that all its
// readers need while it waits for discovery. scheme knows the types that are to be had as such
// (client-go's and our own).
func NewSource(cache ctrlcache.Cache, mapper meta.RESTMapper, scheme *runtime.Scheme, logger klog.Logger) *Source {
	return &Source{
		cache:  cache,
		mapper: mapper,
		scheme: scheme,
		logger: logger,
		shared: map[kind]*sharedInformer{},
	}
}

// Handlers returns the number of event handlers that are alive: added through any scope and neither
// removed nor ended with their scope.
func (s *Source) Handlers() int { return int(s.handlers.Load()) }

// NewScope returns a new scope without any informer. Its owner closes it. A handler that panics
// ends the process: it is ours, and what it keeps up to date can no longer be trusted.
func (s *Source) NewScope() *Scope { return s.NewForeignScope(nil) }

// NewForeignScope is NewScope for handlers that others have written, such as those of plugins:
// report is told when one panics, on the goroutine of the handler, and that is all that comes of
// it.
func (s *Source) NewForeignScope(report func(HandlerPanic)) *Scope {
	return &Scope{
		report:    report,
		source:    s,
		informers: map[kind]*informer{},
		failures:  map[string]error{},
	}
}

// acquire returns the shared informer of a kind for one more user, which release ends. It may wait
// for the API server's discovery, for as long as the mapper's client does. A kind that the server
// does not serve is an error for which meta.IsNoMatchError is true.
func (s *Source) acquire(k kind) (toolscache.SharedIndexInformer, error) {
	s.mu.Lock()
	shared := s.shared[k]
	if shared == nil {
		shared = &sharedInformer{}
		s.shared[k] = shared
	}
	shared.users++ // from here on nobody removes the informer
	known := shared.informer
	s.mu.Unlock()

	// The way of every build but the first: neither the mapper's lock nor the cache's is touched,
	// either of which another goroutine may hold while it waits for the API server.
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

// lookup asks the cache for the informer of a kind; if it is new, the cache starts it.
func (s *Source) lookup(k kind) (toolscache.SharedIndexInformer, error) {
	// The cache asks the mapper too, but under its lock. Asked here, it has the answer by then.
	if _, err := s.mapper.RESTMapping(k.GroupKind(), k.Version); err != nil {
		return nil, fmt.Errorf("informer for %s: %w", k, err)
	}
	obj, err := k.newObject(s.scheme)
	if err != nil {
		return nil, fmt.Errorf("informer for %s: %w", k, err)
	}
	// The context bounds only the wait for the sync, which is left to Scope.WaitForSync.
	found, err := s.cache.GetInformer(context.Background(), obj, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("informer for %s: %w", k, err)
	}
	informer, ok := found.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("informer for %s: the cache returned a %T, which has no store: a scheduler's cache must not be restricted to namespaces", k, found)
	}
	return informer, nil
}

// release ends what acquire began. An informer that never synced is removed from the cache with its
// last user: it belongs to a build that failed, and would go on asking the API server for what that
// forbids. One that has synced stays: it is up to date, and others than scopes may use it.
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
		// Under the lock: whoever asks next has to get a new informer, not the one that is being
		// stopped.
		err = s.cache.RemoveInformer(context.Background(), obj)
	}
	if err != nil {
		s.logger.Error(err, "Informer that did not sync could not be removed from the cache", "kind", k.String())
	}
}

// addIndexers adds those of the indexers that the store does not have. The same function under the
// same name is no error, as profiles that are rebuilt add theirs again and nothing removes an
// index; another function under a name that is taken is, and nothing is added. Functions are the
// same if their code is: an index function must not depend on a plugin's arguments.
func (s *Source) addIndexers(to toolscache.Indexer, add func(toolscache.Indexers) error, indexers toolscache.Indexers) error {
	s.indexers.Lock()
	defer s.indexers.Unlock()
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
	indexers := toolscache.Indexers{}
	for name, function := range from.GetIndexers() {
		indexers[name] = function
	}
	return indexers
}
