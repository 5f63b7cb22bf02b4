// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/cache"
)

// eventLogger is what informer handlers log with: they have no context.
func eventLogger() klog.Logger { return klog.Background().WithName("events") }

// listen adds the handlers of pods and nodes, which the cache and the queue live on.
//
// The handlers of one kind are called by one goroutine each, pods and nodes concurrently.
func (s *Scheduler) listen(scope *informers.Scope) error {
	pods := scope.Core().V1().Pods().Informer()
	pending, err := newPendingPods(pods)
	if err != nil {
		return fmt.Errorf("indexing pending pods: %w", err)
	}
	s.pending = pending
	if _, err := pods.AddEventHandler(handlerOf(s.podAdded, s.podUpdated, s.podDeleted)); err != nil {
		return err
	}
	_, err = scope.Core().V1().Nodes().Informer().AddEventHandler(handlerOf(s.nodeAdded, s.nodeUpdated,
		func(node *corev1.Node, _ bool) { s.nodeDeleted(node) }))
	return err
}

// handlerOf is an event handler for objects of one type. deleted is told whether the object may be
// stale: the informer missed the deletion and only has what it saw last.
func handlerOf[T any](added func(T), updated func(oldObj, newObj T), deleted func(obj T, stale bool)) toolscache.ResourceEventHandler {
	wrong := func(obj any) {
		utilruntime.HandleErrorWithLogger(eventLogger(), nil, "An informer delivered an object of another type", "type", fmt.Sprintf("%T", obj))
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if t, ok := obj.(T); ok {
				added(t)
				return
			}
			wrong(obj)
		},
		UpdateFunc: func(oldObj, newObj any) {
			o, okOld := oldObj.(T)
			n, okNew := newObj.(T)
			if okOld && okNew {
				updated(o, n)
				return
			}
			wrong(newObj)
		},
		DeleteFunc: func(obj any) {
			gone, stale := obj.(toolscache.DeletedFinalStateUnknown)
			if stale {
				obj = gone.Obj
			}
			if t, ok := obj.(T); ok {
				deleted(t, stale)
				return
			}
			wrong(obj)
		},
	}
}

// moveAll tells the queue of a cluster event.
func (s *Scheduler) moveAll(event fwk.ClusterEvent, oldObj, newObj any) {
	s.queue.Move(eventLogger(), event, oldObj, newObj, nil)
}

// observed moves pods for an event and records how long its handling took, from start.
func (s *Scheduler) observed(start time.Time, event fwk.ClusterEvent, oldObj, newObj any) {
	s.moveAll(event, oldObj, newObj)
	observeSince(start, event)
}

// observedEach moves pods for the events that one change amounts to. Each is recorded with its own
// time and that of taking the change into the cache, which began at start.
func (s *Scheduler) observedEach(start time.Time, events []fwk.ClusterEvent, oldObj, newObj any) {
	taken := time.Since(start)
	for _, event := range events {
		s.observed(time.Now().Add(-taken), event, oldObj, newObj)
	}
}

func (s *Scheduler) nodeAdded(node *corev1.Node) {
	start := time.Now()
	s.cache.AddNode(eventLogger(), node)
	s.observed(start, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, node)
}

func (s *Scheduler) nodeUpdated(oldNode, newNode *corev1.Node) {
	start := time.Now()
	s.cache.UpdateNode(eventLogger(), oldNode, newNode)
	s.observedEach(start, schedframework.NodeSchedulingPropertiesChange(newNode, oldNode), oldNode, newNode)
}

func (s *Scheduler) nodeDeleted(node *corev1.Node) {
	start := time.Now()
	logger := eventLogger()
	if err := s.cache.RemoveNode(logger, node); err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Removing a node from the cache failed", "node", klog.KObj(node))
	}
	s.observed(start, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, node, nil)
}

func (s *Scheduler) podAdded(pod *corev1.Pod) {
	if assigned(pod) {
		s.assignedPodAdded(pod)
		return
	}
	start := time.Now()
	s.queue.Add(eventLogger(), pod)
	observeSince(start, schedframework.EventUnscheduledPodAdd)
}

func (s *Scheduler) podUpdated(oldPod, newPod *corev1.Pod) {
	switch {
	case oldPod.UID != newPod.UID:
		// The informer missed the deletion of a pod whose name was used again.
		s.podDeleted(oldPod, true)
		s.podAdded(newPod)
	case assigned(oldPod):
		s.assignedPodUpdated(oldPod, newPod)
	case assigned(newPod):
		// Bound: by us, which the cache expects, or by somebody else, in which case the pod may
		// still be queued.
		s.assignedPodAdded(newPod)
		start := time.Now()
		s.queue.Delete(eventLogger(), oldPod)
		observeSince(start, schedframework.EventUnscheduledPodDelete)
		if nominated := oldPod.Status.NominatedNodeName; nominated != "" && nominated != newPod.Spec.NodeName {
			s.queue.NominationEnded(eventLogger(), oldPod)
		}
	default:
		s.pendingPodUpdated(oldPod, newPod)
	}
}

func (s *Scheduler) podDeleted(pod *corev1.Pod, stale bool) {
	// What a stale object says of its node may be outdated; the cache knows better. One that is
	// being bound is rejected, not only removed, so that it does not wait on Permit for nothing.
	if assigned(pod) || stale && !s.assumed(pod) {
		s.assignedPodDeleted(pod)
	}
	if !assigned(pod) {
		s.pendingPodDeleted(pod)
	}
}

func (s *Scheduler) assignedPodAdded(pod *corev1.Pod) {
	start := time.Now()
	logger := eventLogger()
	if err := s.cache.AddPod(logger, pod); err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Adding a pod to the cache failed", "pod", klog.KObj(pod))
	}
	s.observed(start, schedframework.EventAssignedPodAdd, nil, pod)
}

func (s *Scheduler) assignedPodUpdated(oldPod, newPod *corev1.Pod) {
	start := time.Now()
	logger := eventLogger()
	if err := s.cache.UpdatePod(logger, oldPod, newPod); err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Updating a pod in the cache failed", "pod", klog.KObj(newPod))
	}
	events := schedframework.PodSchedulingPropertiesChange(newPod, oldPod)
	s.observedEach(start, events, oldPod, newPod)
	observeUpdate(start, schedframework.EventAssignedPodUpdate, events)
}

func (s *Scheduler) assignedPodDeleted(pod *corev1.Pod) {
	start := time.Now()
	logger := eventLogger()
	// A stale object may be of a pod that was never assigned, and that the cache does not know.
	if err := s.cache.RemovePod(logger, pod); err != nil && !errors.Is(err, cache.ErrUnknownPod) {
		utilruntime.HandleErrorWithLogger(logger, err, "Removing a pod from the cache failed", "pod", klog.KObj(pod))
	}
	s.observed(start, schedframework.EventAssignedPodDelete, pod, nil)
}

func (s *Scheduler) pendingPodUpdated(oldPod, newPod *corev1.Pod) {
	// An update that carries the same object, as a re-list does, would queue a pod that is in its
	// cycle a second time (kubernetes/kubernetes#96071).
	if oldPod.ResourceVersion == newPod.ResourceVersion {
		return
	}
	start := time.Now()
	logger := eventLogger()
	events := schedframework.PodSchedulingPropertiesChange(newPod, oldPod)
	defer func() {
		observeUpdate(start, schedframework.EventUnscheduledPodUpdate, events)
		for _, event := range events {
			observeSince(start, event)
		}
	}()
	if s.assumed(newPod) {
		if newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil {
			s.assumedPodDeleted(newPod)
		}
		s.queue.UpdateAssumed(logger, oldPod, newPod)
		return
	}
	s.queue.Update(logger, oldPod, newPod)
	deleted := newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil
	if nominated := oldPod.Status.NominatedNodeName; nominated != "" && (deleted || nominated != newPod.Status.NominatedNodeName) {
		s.queue.NominationEnded(logger, oldPod)
	}
}

func (s *Scheduler) pendingPodDeleted(pod *corev1.Pod) {
	start := time.Now()
	defer observeSince(start, schedframework.EventUnscheduledPodDelete)
	s.queue.Delete(eventLogger(), pod)
	switch {
	case s.assumed(pod):
		s.assumedPodDeleted(pod)
	case pod.Status.NominatedNodeName != "":
		s.queue.NominationEnded(eventLogger(), pod)
	}
}

// assumedPodDeleted gives back the room of a pod that is deleted while it is being bound. Which
// profile it was placed by, and whether that still exists, does not matter: cache and waiting pods
// belong to all.
func (s *Scheduler) assumedPodDeleted(pod *corev1.Pod) {
	logger := eventLogger()
	assumed, err := s.cache.GetPod(pod)
	if err != nil {
		return // its binding cycle has ended meanwhile, one way or the other
	}
	// A pod that waits on Permit is rejected and undone by its own binding cycle. One in PreBind or
	// Bind cannot be stopped, and will fail since the pod is gone: take its room back now.
	if !s.env.WaitingPods.Reject(pod.UID) {
		if err := s.cache.ForgetPod(logger, assumed); err != nil {
			utilruntime.HandleErrorWithLogger(logger, err, "Forgetting a deleted pod failed", "pod", klog.KObj(pod))
		}
	}
	s.moveAll(schedframework.EventAssignedPodDelete, assumed, nil)
}

// endNomination takes back the nomination of a pod that is assumed on a node. If it had been
// promised another one, that is free for others now, of which no event would tell them.
func (s *Scheduler) endNomination(logger klog.Logger, pod *corev1.Pod, nodeName string) {
	s.queue.DeleteNominatedPodIfExists(pod)
	if nominated := pod.Status.NominatedNodeName; nominated != "" && nominated != nodeName {
		s.queue.NominationEnded(logger, pod)
	}
}

func (s *Scheduler) assumed(pod *corev1.Pod) bool {
	assumed, err := s.cache.IsAssumedPod(pod)
	if err != nil {
		utilruntime.HandleErrorWithLogger(eventLogger(), err, "Looking up whether a pod is assumed failed", "pod", klog.KObj(pod))
		return false
	}
	return assumed
}

func assigned(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

func observeSince(start time.Time, event fwk.ClusterEvent) {
	schedmetrics.EventHandlingLatency.WithLabelValues(event.Label()).Observe(schedmetrics.SinceInSeconds(start))
}

// observeUpdate records the update of a pod as such, as kube-scheduler does, beside the events that
// it amounts to.
func observeUpdate(start time.Time, update fwk.ClusterEvent, events []fwk.ClusterEvent) {
	if !slices.Contains(events, update) {
		observeSince(start, update)
	}
}
