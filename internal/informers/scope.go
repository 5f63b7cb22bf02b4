// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	toolscache "k8s.io/client-go/tools/cache"
)

// ErrClosed is the error of methods of a scope and its informers that cannot be used after Close.
var ErrClosed = errors.New("the scope of these informers is closed")

// Scope is a client-go SharedInformerFactory for one build of a profile and the lifetime of the
// resulting instance, or for the lifetime of the process. Use it in this order: pass it to the
// plugins, call [Scope.WaitForSync], use the listers, call Close. All methods are safe for
// concurrent use.
type Scope struct {
	source *Source
	// report is called with the panics of handlers. It is nil for livesched's own handlers.
	report func(HandlerPanic)

	// guards the rest, and the handlers of the informers; never held while waiting for the API
	// server
	mu        sync.Mutex
	closed    bool
	informers map[kind]*informer // requested informers, including empty ones
	failures  map[string]error   // by what was requested
	owner     string             // of handlers that are added now
	deaf      bool               // handlers that are added now are ignored
}

// SetOwner sets the owner of the handlers that are added from now on, for reports of their panics.
func (s *Scope) SetOwner(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner = owner
}

// IgnoreHandlers sets whether handlers that are added from now on are ignored: they are never
// called, count as synced, and cost nothing, since existing objects are not replayed for them. It
// is for code whose handlers only maintain data that the caller discards.
func (s *Scope) IgnoreHandlers(ignore bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = ignore
}

// InformerFor returns the informer of an object's type. A new informer starts immediately. The call
// may wait for the API server's discovery. It ignores the constructor, because informers come from
// the manager's cache.
//
// It always returns a usable informer: if none is available, an empty one that counts as synced. If
// the server does not serve the kind, Missing lists it until the server does. All other errors are
// returned by [Scope.Err] and [Scope.WaitForSync].
func (s *Scope) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) toolscache.SharedIndexInformer {
	k, err := kindOf(obj, s.source.scheme)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failures[fmt.Sprintf("%T", obj)] = err
		return s.empty(kind{})
	}
	return s.informer(k)
}

// InformerName returns nil: the manager's informers have no name in metrics.
func (s *Scope) InformerName() *toolscache.InformerName { return nil }

// ForResource returns the typed informer and lister of a resource whose kind is in the scheme. It
// returns an error if discovery fails or if the scheme does not have the resource, but not if the
// server does not serve it (see Missing).
func (s *Scope) ForResource(gvr schema.GroupVersionResource) (clientinformers.GenericInformer, error) {
	gvk, err := s.kindFor(gvr)
	if err != nil {
		return nil, err
	}
	if !s.source.scheme.Recognizes(gvk) {
		return nil,
			fmt.Errorf("informer for resource %s: %s is not in the scheme; use Dynamic for unstructured objects", gvr,
				display(gvk))
	}
	return genericInformer{informer: s.informer(kind{gvk, typedForm}), resource: gvr.GroupResource()}, nil
}

// Dynamic returns the informer of any resource, including custom resources. Its objects are
// *unstructured.Unstructured, as kube-scheduler passes them to the queueing hints of a cluster
// event such as "foos.v1.example.com". It returns an error if discovery fails, but not if the
// server does not serve the resource (see Missing).
func (s *Scope) Dynamic(gvr schema.GroupVersionResource) (toolscache.SharedIndexInformer, error) {
	gvk, err := s.kindFor(gvr)
	if err != nil {
		return nil, err
	}
	return s.informer(kind{gvk, unstructuredForm}), nil
}

// kindFor returns the kind of a resource. If the server does not serve the resource, it returns the
// kind in the scheme, or else a kind with the name of the resource. Both have no informer then and
// are reported as missing.
func (s *Scope) kindFor(gvr schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	gvk, err := s.source.mapper.KindFor(gvr)
	if err == nil {
		return gvk, nil
	}
	if !meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, fmt.Errorf("informer for resource %s: %w", gvr, err)
	}
	if gvk, ok := kindInScheme(gvr, s.source.scheme); ok {
		return gvk, nil
	}
	return gvr.GroupVersion().WithKind(gvr.Resource), nil
}

// informer returns the scope's informer of a kind, which is the same for the lifetime of the scope.
func (s *Scope) informer(k kind) *informer {
	if known := s.known(k); known != nil {
		return known
	}
	// Not under the lock, because Close must not wait for the API server.
	shared, err := s.source.acquire(k)

	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.knownLocked(k)
	switch {
	case known != nil: // closed, or requested by two goroutines at the same time
		if err == nil {
			s.source.release(k)
		}
		return known
	case err == nil:
		i := s.wrap(k, shared)
		i.acquired = &k
		s.informers[k] = i
		return i
	case meta.IsNoMatchError(err):
		s.source.logger.V(2).Info(
			"The API server does not serve a requested kind; assuming that there are no objects until it does", "kind",
			k.String())
		i := s.wrap(k, newLateInformer(k))
		s.informers[k] = i
		s.source.expect(i)
		return i
	default:
		s.failures[k.String()] = err
	}
	i := s.empty(k)
	s.informers[k] = i
	return i
}

func (s *Scope) known(k kind) *informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.knownLocked(k)
}

// knownLocked returns the informer of a kind that was requested before. For other kinds it returns
// nil, or an empty informer if the scope is closed: an abandoned build may still be running.
func (s *Scope) knownLocked(k kind) *informer {
	if i := s.informers[k]; i != nil {
		return i
	}
	if s.closed {
		return s.empty(k)
	}
	return nil
}

func (s *Scope) empty(k kind) *informer { return s.wrap(k, newEmptyInformer(k)) }

func (s *Scope) wrap(k kind, shared toolscache.SharedIndexInformer) *informer {
	return &informer{
		SharedIndexInformer: shared,
		kind:                k,
		scope:               s,
		handlers:            map[toolscache.ResourceEventHandlerRegistration]*gate{},
	}
}

// Missing returns the requested kinds that the API server does not serve, sorted. Their informers
// are empty until it does: see [Source.Probe]. A resource whose kind is unknown (see Dynamic)
// appears with the name of the resource as its kind.
func (s *Scope) Missing() []schema.GroupVersionKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return missingKinds(s.informers)
}

func compareKinds(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }

// Err returns the errors of requested informers that are not available, nil if all are. Kinds that
// the API server does not serve are not errors.
func (s *Scope) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.failures)) {
		errs = append(errs, s.failures[name])
	}
	return errors.Join(errs...)
}

// Close removes every event handler that was added through the scope. It also removes from the
// manager's cache the scope's informers that never synced and that no other scope uses. Afterwards
// no handler is called, though a call that has begun may still run, and no handler can be added.
// Listers still work. Further calls of Close do nothing.
func (s *Scope) Close() {
	for _, k := range s.removeHandlers() {
		s.source.release(k)
	}
}

// removeHandlers closes the scope and returns the kinds that it no longer uses. It returns none if
// the scope was closed before.
func (s *Scope) removeHandlers() []kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var acquired []kind
	for k, i := range s.informers {
		s.source.forget(i)
		for registration := range i.handlers {
			if err := i.removeLocked(registration); err != nil {
				s.source.logger.Error(err, "Failed to remove an event handler", "kind", k.String())
			}
		}
		if i.acquired != nil {
			acquired = append(acquired, *i.acquired)
		}
	}
	return acquired
}

// genericInformer is an informer with a lister that returns runtime.Object.
type genericInformer struct {
	informer *informer
	resource schema.GroupResource
}

func (g genericInformer) Informer() toolscache.SharedIndexInformer { return g.informer }

func (g genericInformer) Lister() toolscache.GenericLister {
	return toolscache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}
