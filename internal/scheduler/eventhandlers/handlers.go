// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eventhandlers turns the events of informers into changes of the scheduler's cache and
// queue.
//
//	pods, nodes      Listen      cache, queue; until the process ends                pods.go, nodes.go,
//	                                                                                 resizes.go
//	other resources  Sources     cluster events for the queue, which wake the pods   sources.go, resources.go
//	                             that plugins refused; while a profile needs them
//	pending pods     Pending     an index, for profiles that are new                 pending.go
//	PodGroups        ListenTo-   the registry of groups, queue; until the process    podgroups.go
//	                 Groups      ends
//
// One goroutine calls the handlers of one kind of object. Handlers of different kinds
// run concurrently.
package eventhandlers

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// Listen adds the handlers of pods and nodes, which fill the cache and the queue. It returns the
// index of the pods that wait to be scheduled. waiting and preBinding are the pods whose binding
// cycles a deletion ends.
func Listen(
	scope *informers.Scope, c *cache.Cache, q *queue.Queue,
	waiting *framework.WaitingPods, preBinding *framework.PodsInPreBind, groups *podgroup.Registry,
) (*Pending, error) {
	h := &handlers{cache: c, queue: q, waiting: waiting, preBinding: preBinding, groups: groups}
	pods := scope.Core().V1().Pods().Informer()
	pending, err := newPending(pods, c, q)
	if err != nil {
		return nil, fmt.Errorf("indexing pending pods: %w", err)
	}
	if _, err := pods.AddEventHandler(handlerOf(h.podAdded, h.podUpdated, h.podDeleted)); err != nil {
		return nil, fmt.Errorf("adding the handler of pods: %w", err)
	}
	_, err = scope.Core().V1().Nodes().Informer().AddEventHandler(handlerOf(h.nodeAdded, h.nodeUpdated,
		func(node *corev1.Node, _ bool) { h.nodeDeleted(node) }))
	if err != nil {
		return nil, fmt.Errorf("adding the handler of nodes: %w", err)
	}
	return pending, nil
}

// handlers are the event handlers of pods and nodes.
type handlers struct {
	cache      *cache.Cache
	queue      *queue.Queue
	waiting    *framework.WaitingPods
	preBinding *framework.PodsInPreBind
	// groups is nil if there are no pod groups.
	groups *podgroup.Registry
}

// eventLogger returns the logger of informer handlers, which have no context.
func eventLogger() klog.Logger { return klog.Background().WithName("events") }

// handlerOf returns an event handler for objects of one type. A deleted object is stale if the
// informer missed the deletion, and has only the last version before it.
func handlerOf[T any](added func(T), updated func(oldObj, newObj T),
	deleted func(obj T, stale bool)) toolscache.ResourceEventHandler {
	as := func(obj any) (t T, ok bool) {
		if t, ok = obj.(T); !ok {
			utilruntime.HandleErrorWithLogger(eventLogger(), nil, "An informer delivered an object of another type",
				"type", fmt.Sprintf("%T", obj))
		}
		return t, ok
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if t, ok := as(obj); ok {
				added(t)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			o, okOld := as(oldObj)
			if n, okNew := as(newObj); okOld && okNew {
				updated(o, n)
			}
		},
		DeleteFunc: func(obj any) {
			gone, stale := obj.(toolscache.DeletedFinalStateUnknown)
			if stale {
				obj = gone.Obj
			}
			if t, ok := as(obj); ok {
				deleted(t, stale)
			}
		},
	}
}

// observed moves pods for an event and records how long its handling took, from start.
func (h *handlers) observed(start time.Time, event fwk.ClusterEvent, oldObj, newObj any) {
	h.queue.Move(eventLogger(), event, oldObj, newObj, nil)
	observeSince(start, event)
}

// observedEach moves pods for the events that one change consists of. Each is recorded with its own
// time and the time of the update of the cache, which began at start.
func (h *handlers) observedEach(start time.Time, events []fwk.ClusterEvent, oldObj, newObj any) {
	taken := time.Since(start)
	for _, event := range events {
		h.observed(time.Now().Add(-taken), event, oldObj, newObj)
	}
}

func observeSince(start time.Time, event fwk.ClusterEvent) {
	schedmetrics.EventHandlingLatency.WithLabelValues(event.Label()).Observe(schedmetrics.SinceInSeconds(start))
}

// observeUpdate records the update of a pod as such, as kube-scheduler does, in addition to the
// events that it consists of.
func observeUpdate(start time.Time, update fwk.ClusterEvent, events []fwk.ClusterEvent) {
	if !slices.Contains(events, update) {
		observeSince(start, update)
	}
}
