// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Sources turns changes of the objects that plugins ask for into cluster events. Pods, nodes and
// devices always have a handler; every other resource has one from the first profile that needs it
// to the last.
//
// Builds and closing profiles call Require and the release functions concurrently.
type Sources struct {
	informers *informers.Source
	queue     *queue.Queue

	mu sync.Mutex // guards sources
	// sources are the resources that have a handler.
	sources map[fwk.EventResource]*source
}

// source is a resource that has a handler.
type source struct {
	// scope holds the handler; closing it removes the handler. nil for a source that never ends.
	scope *informers.Scope
	// users is the number of profiles that need the resource.
	users int
}

// missing reports that the API server does not serve the resource.
func (s *source) missing() bool { return s.scope != nil && len(s.scope.Missing()) > 0 }

// permanent holds the resources that have their own handlers (see Listen and ListenToDevices) until
// the process ends. Without the feature DynamicResourceAllocation there are no events of its
// resources, as in kube-scheduler.
var permanent = []fwk.EventResource{fwk.Pod, fwk.AssignedPod, fwk.UnscheduledPod, fwk.TargetPod, fwk.Node,
	fwk.ResourceClaim, fwk.ResourceSlice, fwk.DeviceClass}

// NewSources returns Sources that move the pods of a queue.
func NewSources(informers *informers.Source, q *queue.Queue) *Sources {
	s := &Sources{informers: informers, queue: q, sources: map[fwk.EventResource]*source{}}
	for _, resource := range permanent {
		s.sources[resource] = &source{users: 1}
	}
	return s
}

// ListenToDevices delivers the cluster events of claims, slices and device classes. preBinding are
// the pods whose binding cycles the loss of a claim ends.
func (s *Sources) ListenToDevices(d *devices.Managers, preBinding *framework.PodsInPreBind) error {
	return d.AddEventHandlers(func(resource fwk.EventResource) toolscache.ResourceEventHandler {
		handler := s.handler(resource)
		if resource == fwk.ResourceClaim {
			handler = endingBindings(handler, preBinding)
		}
		return handler
	})
}

// Require implements profile.EventSources.
func (s *Sources) Require(ctx context.Context, resources []fwk.EventResource) (func(), error) {
	var held []fwk.EventResource
	var errs []error
	for _, resource := range unrolled(resources) {
		if err := s.hold(ctx, resource); err != nil {
			errs = append(errs, fmt.Errorf("resource %q: %w", resource, err))
			continue
		}
		held = append(held, resource)
	}
	if err := errors.Join(errs...); err != nil {
		s.release(held)
		return nil, err
	}
	return sync.OnceFunc(func() { s.release(held) }), nil
}

// Missing implements profile.EventSources. What a wildcard stands for does not count: a plugin that
// registers for it needs no kind in particular.
func (s *Sources) Missing(resources []fwk.EventResource) (kinds []schema.GroupVersionKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range resources {
		if source := s.sources[resource]; source != nil && source.scope != nil {
			kinds = append(kinds, source.scope.Missing()...)
		}
	}
	return kinds
}

// hold makes sure that a resource has a handler, for one more user. The API server may now serve a
// resource that it did not serve at the first request.
//
// No lock is held while a new informer syncs: neither another build nor a profile that closes waits
// for a resource that may not be listed. Two builds that request a new resource at the same time
// both add a handler, and the later one removes its own.
func (s *Sources) hold(ctx context.Context, resource fwk.EventResource) error {
	if s.join(resource, nil) {
		return nil
	}
	fresh, err := s.listen(ctx, resource)
	if err != nil {
		return err
	}
	if s.join(resource, fresh) {
		fresh.scope.Close()
	}
	return nil
}

// join adds a user to the source of a resource, if there is one. If there is none, or it is
// missing, fresh becomes the source, with that user, unless it is nil. join reports whether the
// earlier source is used.
func (s *Sources) join(resource fwk.EventResource, fresh *source) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.sources[resource]
	if known != nil && !known.missing() {
		known.users++
		return true
	}
	if fresh == nil {
		return false
	}
	if known != nil {
		fresh.users = known.users
		known.scope.Close()
	}
	fresh.users++
	s.sources[resource] = fresh
	return false
}

func (s *Sources) release(resources []fwk.EventResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range resources {
		source := s.sources[resource]
		source.users--
		if source.users == 0 {
			source.scope.Close()
			delete(s.sources, resource)
		}
	}
}

// listen adds a handler of a resource and waits until it has seen the first list.
func (s *Sources) listen(ctx context.Context, resource fwk.EventResource) (*source, error) {
	scope := s.informers.NewScope()
	informer, err := informerFor(scope, resource)
	if err != nil {
		scope.Close()
		return nil, err
	}
	if _, err := informer.AddEventHandler(s.handler(resource)); err != nil {
		scope.Close()
		return nil, err
	}
	if err := scope.WaitForSync(ctx); err != nil {
		scope.Close()
		return nil, err
	}
	return &source{scope: scope}, nil
}

// handler returns the handler that turns the changes of a resource's objects into cluster events.
// The queue drops those that no plugin registered for.
func (s *Sources) handler(resource fwk.EventResource) toolscache.ResourceEventHandler {
	emit := func(action fwk.ActionType, oldObj, newObj any) {
		event := fwk.ClusterEvent{Resource: resource, ActionType: action}
		start := time.Now()
		s.queue.Move(eventLogger(), event, oldObj, newObj, nil)
		observeSince(start, event)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { emit(fwk.Add, nil, obj) },
		UpdateFunc: func(oldObj, newObj any) { emit(fwk.Update, oldObj, newObj) },
		DeleteFunc: func(obj any) { emit(fwk.Delete, informers.Last(obj), nil) },
	}
}
