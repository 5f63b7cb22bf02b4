// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
)

// eventSources turns changes of the objects that plugins ask about into cluster events. Pods and
// nodes are always listened to (events.go); every other resource from the first profile that needs
// it to the last.
//
// Require and the release functions are called by builds and by closing profiles, concurrently.
type eventSources struct {
	informers *informers.Source
	move      func(event fwk.ClusterEvent, oldObj, newObj any)

	mu sync.Mutex // guards sources
	// sources are the resources that are listened to.
	sources map[fwk.EventResource]*eventSource
}

// eventSource is one resource that is listened to.
type eventSource struct {
	// scope holds the handler; closing it removes the handler. nil for a source that never ends.
	scope *informers.Scope
	// users is how many profiles need the resource.
	users int
}

// missing says that the API server did not serve the resource when the source was made.
func (s *eventSource) missing() bool { return s.scope != nil && len(s.scope.Missing()) > 0 }

func newEventSources(source *informers.Source, move func(event fwk.ClusterEvent, oldObj, newObj any)) *eventSources {
	s := &eventSources{informers: source, move: move, sources: map[fwk.EventResource]*eventSource{}}
	s.permanent(fwk.Pod, fwk.Node)
	return s
}

// permanent notes resources that are listened to for the life of the process.
func (s *eventSources) permanent(resources ...fwk.EventResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range resources {
		s.sources[resource] = &eventSource{users: 1}
	}
}

// Require implements profile.EventSources.
func (s *eventSources) Require(ctx context.Context, resources []fwk.EventResource) (func(), error) {
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

// hold makes sure that a resource is listened to, for one more user. A resource that the API server
// did not serve when it was first asked for may be served by now.
//
// No lock is held while a new informer syncs: neither another build nor a profile that closes waits
// for one that may not be listed. Two builds that ask for a new resource at once both listen, for
// that moment, and the later one gives up its handler.
func (s *eventSources) hold(ctx context.Context, resource fwk.EventResource) error {
	if s.join(resource, nil) {
		return nil
	}
	source, err := s.listen(ctx, resource)
	if err != nil {
		return err
	}
	if s.join(resource, source) {
		source.scope.Close()
	}
	return nil
}

// join adds a user to the source of a resource, if there is one. If there is none, or one that is
// missing, fresh is made the source, unless it is nil, with that user. It returns whether the
// source that there was is used.
func (s *eventSources) join(resource fwk.EventResource, fresh *eventSource) bool {
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

func (s *eventSources) release(resources []fwk.EventResource) {
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

// listen adds a handler for a resource and waits until it has seen the first list.
func (s *eventSources) listen(ctx context.Context, resource fwk.EventResource) (*eventSource, error) {
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
	return &eventSource{scope: scope}, nil
}

// handler turns the changes of a resource's objects into cluster events. The queue drops those that
// no plugin asked for.
func (s *eventSources) handler(resource fwk.EventResource) toolscache.ResourceEventHandler {
	emit := func(action fwk.ActionType, oldObj, newObj any) {
		event := fwk.ClusterEvent{Resource: resource, ActionType: action}
		start := time.Now()
		s.move(event, oldObj, newObj)
		schedmetrics.EventHandlingLatency.WithLabelValues(event.Label()).Observe(schedmetrics.SinceInSeconds(start))
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { emit(fwk.Add, nil, obj) },
		UpdateFunc: func(oldObj, newObj any) { emit(fwk.Update, oldObj, newObj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			emit(fwk.Delete, obj, nil)
		},
	}
}

// unrolled replaces the wildcard by the resources that it stands for.
func unrolled(resources []fwk.EventResource) []fwk.EventResource {
	var all []fwk.EventResource
	for _, resource := range resources {
		if resource != fwk.WildCard {
			all = append(all, resource)
			continue
		}
		for name := range builtin {
			if name != serviceaffinity.Service { // none of the framework's own, which the wildcard stands for
				all = append(all, name)
			}
		}
		all = append(all, fwk.Pod, fwk.Node)
	}
	return all
}

// builtin are the informers of the resources that plugins name, but for those with a source of
// their own.
var builtin = map[fwk.EventResource]func(*informers.Scope) toolscache.SharedIndexInformer{
	fwk.PersistentVolume: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Core().V1().PersistentVolumes().Informer()
	},
	fwk.PersistentVolumeClaim: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Core().V1().PersistentVolumeClaims().Informer()
	},
	fwk.StorageClass: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().StorageClasses().Informer()
	},
	fwk.CSINode: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().CSINodes().Informer()
	},
	fwk.CSIDriver: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().CSIDrivers().Informer()
	},
	fwk.CSIStorageCapacity: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().CSIStorageCapacities().Informer()
	},
	fwk.VolumeAttachment: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Storage().V1().VolumeAttachments().Informer()
	},
	serviceaffinity.Service: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Core().V1().Services().Informer()
	},
	fwk.PodGroup: func(s *informers.Scope) toolscache.SharedIndexInformer {
		return s.Scheduling().V1alpha2().PodGroups().Informer()
	},
}

// informerFor returns the informer of a resource: one that fwk names, or
// "<plural>.<version>.<group>" of any other kind, as upstream's addAllEventHandlers reads it.
func informerFor(scope *informers.Scope, resource fwk.EventResource) (toolscache.SharedIndexInformer, error) {
	if get, ok := builtin[resource]; ok {
		return get(scope), nil
	}
	if strings.Count(string(resource), ".") < 2 {
		return nil, errors.New(`not a resource that the scheduler knows; custom resources are named <plural>.<version>.<group>, as in "foos.v1.example.com"`)
	}
	gvr, _ := schema.ParseResourceArg(string(resource))
	return scope.Dynamic(*gvr)
}
