// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers implements client-go's SharedInformerFactory on top of the manager's cache, the
// informer layer of everything that schedules. Plugins, listers and event handlers written for
// kube-scheduler work on it unchanged. Few informers are apart from it: those that need other
// objects of a kind, such as one object by its name, or pods that have ended.
//
//	ctrl.Manager's cache          one shared informer per kind (see CacheOptions)
//	      |
//	   Source                     one per process: requests informers from the cache and counts
//	                              their users
//	      |
//	   Scope, Scope, ...          one per profile build, and one for the process: a
//	                              SharedInformerFactory
//	      |
//	   informer, indexer          a plugin's view of the shared informer, which cannot harm
//	                              other users
//
// A scope records every event handler that is added through it, and Close removes them, so that any
// number of rebuilds of a profile leave nothing behind. A scope cannot stop an informer, set its
// transform or write to its store, and an index that exists is not added again.
//
// If a plugin's handler panics, it only misses that event. Otherwise any plugin could end the
// process from one of its goroutines. A panic in a handler of livesched itself ends the process.
//
// Two rules concern time. Use scopes only after the manager has started: an informer that was
// requested before and cannot sync, because the API server forbids its kind, would block the start
// of everything else. And an informer is empty when it is new: do not use the listers of a new
// scope before WaitForSync.
//
// A kind that the API server does not serve is not an error. Its informers are empty until the API
// server does: see Scope.Missing and Source.Probe.
package informers
