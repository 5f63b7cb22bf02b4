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

// ErrClosed is returned by a scope, and by the informers had from it, for what cannot be done after
// Close.
var ErrClosed = errors.New("the scope of these informers is closed")

// Scope is a client-go SharedInformerFactory for the length of one profile build and of the profile
// that comes out of it (or of the process). It is to be used in this order: hand it to the plugins,
// [Scope.WaitForSync], use, Close. All methods are safe for concurrent use.
type Scope struct {
	source *Source
	// report is told of the panics of handlers; nil for a scope of our own.
	report func(HandlerPanic)

	mu        sync.Mutex // guards the rest, and the handlers of the informers; never held while waiting for the API server
	closed    bool
	informers map[kind]*informer // those that are used, empty ones included
	missing   []schema.GroupVersionKind
	failures  map[string]error // by what was asked for
	owner     string           // of the handlers that are added
	deaf      bool             // handlers that are added get nothing
}

// SetOwner says whose the handlers are that are added from now on, for reports of their panics.
func (s *Scope) SetOwner(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner = owner
}

// IgnoreHandlers says whether the handlers that are added from now on are never called. They count
// as synced, and cost nothing: the objects that there are already are not replayed for them. It is
// meant for code whose handlers only feed what the caller throws away.
func (s *Scope) IgnoreHandlers(ignore bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = ignore
}

// InformerFor returns the informer of an object's type; a new one starts at once. It may wait for
// the API server's discovery. The constructor is ignored, as informers come from the manager's
// cache.
//
// There is no error to return, and what is returned can always be used: where there is no informer,
// the caller gets an empty one that counts as synced. If that is because the server does not serve
// the kind, Missing lists it; for any other reason [Scope.Err] and [Scope.WaitForSync] return it.
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

// ForResource returns the typed informer and lister of a resource whose kind is in the scheme.
// Discovery that fails is an error, as is a resource that is not in the scheme; one that the server
// does not serve is not (see Missing).
func (s *Scope) ForResource(gvr schema.GroupVersionResource) (clientinformers.GenericInformer, error) {
	gvk, err := s.kindFor(gvr)
	if err != nil {
		return nil, err
	}
	if !s.source.scheme.Recognizes(gvk) {
		return nil, fmt.Errorf("informer for resource %s: %s is not in the scheme; Dynamic has its objects without a type", gvr, display(gvk))
	}
	return genericInformer{informer: s.informer(kind{gvk, typedForm}), resource: gvr.GroupResource()}, nil
}

// Dynamic returns the informer of any resource, custom ones too. Its objects are
// *unstructured.Unstructured, which is what kube-scheduler hands to the queueing hints of a cluster
// event such as "foos.v1.example.com". Discovery that fails is an error; a resource that the server
// does not serve is not (see Missing).
func (s *Scope) Dynamic(gvr schema.GroupVersionResource) (toolscache.SharedIndexInformer, error) {
	gvk, err := s.kindFor(gvr)
	if err != nil {
		return nil, err
	}
	return s.informer(kind{gvk, unstructuredForm}), nil
}

// kindFor finds the kind of a resource. If the server does not serve the resource, it is the kind
// that the scheme has for it, or else one with the resource for a name: the informer of neither is
// found then, and it is reported missing.
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

// informer returns the scope's informer of a kind. The answer, a negative one too, holds for the
// life of the scope.
func (s *Scope) informer(k kind) *informer {
	if known := s.known(k); known != nil {
		return known
	}
	// Not under the lock: Close must not wait for the API server.
	shared, err := s.source.acquire(k)

	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.knownLocked(k)
	switch {
	case known != nil: // closed, or asked for by two goroutines at once
		if err == nil {
			s.source.release(k)
		}
		return known
	case err == nil:
		i := s.wrap(k, shared)
		i.acquired = true
		s.informers[k] = i
		return i
	case meta.IsNoMatchError(err):
		s.missing = append(s.missing, k.GroupVersionKind)
		s.source.logger.V(2).Info("The API server does not serve a kind that the scheduler asked for; it is taken to have no objects", "kind", k.String())
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

// knownLocked returns the informer of a kind that was asked for before, and an empty one for any
// other kind once the scope is closed: a build that was given up may still be running.
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

// Missing returns the kinds that were asked for and that the API server did not serve, sorted.
// Their informers are empty and stay so for the life of the scope; the next scope asks again. A
// resource of which not even the kind is known (see Dynamic) has the resource's name for its kind.
func (s *Scope) Missing() []schema.GroupVersionKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := slices.Clone(s.missing)
	slices.SortFunc(missing, func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(missing)
}

// Err returns why informers that were asked for could not be had, nil if all could. Kinds that are
// not served do not count.
func (s *Scope) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.failures)) {
		errs = append(errs, s.failures[name])
	}
	return errors.Join(errs...)
}

// Close removes every event handler that was added through the scope, and from the manager's cache
// those of its informers that never synced and that no other scope uses. Afterwards no handler is
// called any more, but a call that is under way may still be running; no handler can be added, and
// listers go on reading. Further calls do nothing.
func (s *Scope) Close() {
	for _, k := range s.removeHandlers() {
		s.source.release(k)
	}
}

// removeHandlers closes the scope and returns the kinds that it no longer uses; none if it was
// closed before.
func (s *Scope) removeHandlers() []kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var acquired []kind
	for k, i := range s.informers {
		for registration := range i.handlers {
			if err := i.removeLocked(registration); err != nil {
				s.source.logger.Error(err, "Event handler could not be removed", "kind", k.String())
			}
		}
		if i.acquired {
			acquired = append(acquired, k)
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
