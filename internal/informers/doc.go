// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers is client-go's SharedInformerFactory on top of the manager's cache, which is
// the only informer layer of the process: plugins, listers and event handlers written for
// kube-scheduler work on it unchanged.
//
//	ctrl.Manager's cache          one shared informer per kind (CacheOptions says what they keep)
//	      |
//	   Source                     one per process: asks the cache for informers, counts who uses them
//	      |
//	   Scope, Scope, ...          one per profile build, and one for the process: an informers.SharedInformerFactory
//	      |
//	   informer, indexer          what a plugin holds: the shared informer, without what would harm the others
//
// A scope remembers every event handler that was added through it, so that a profile can be rebuilt
// a thousand times and leave nothing behind: Close removes them. What is shared stays shared: a
// scope cannot stop an informer, set its transform or write to its store, and an index that exists
// already is not added again.
//
// A handler of a plugin that panics misses the event that it was told of, and no more: without
// that, any plugin could end the process from a goroutine that nobody else sees. Handlers of
// livesched itself may still end it.
//
// Two rules about time come with it. Scopes are for after the manager has started: an informer that
// was requested before and cannot sync, since the API server forbids its kind, would hold up the
// start of everything else. And an informer that was just requested is empty: nothing may be
// decided by a new scope's listers before WaitForSync.
//
// A kind that the API server does not serve is no error, see Scope.Missing.
package informers
