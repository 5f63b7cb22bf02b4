// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"cmp"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

func (h *handlers) podAdded(pod *corev1.Pod) {
	if assigned(pod) {
		h.assignedPodAdded(pod)
		h.resizeAdded(pod)
		return
	}
	start := time.Now()
	h.queue.Add(eventLogger(), pod)
	observeSince(start, schedframework.EventUnscheduledPodAdd)
}

func (h *handlers) podUpdated(oldPod, newPod *corev1.Pod) {
	switch {
	case oldPod.UID != newPod.UID:
		// The informer missed the deletion of a pod whose name was used again.
		h.podDeleted(oldPod, true)
		h.podAdded(newPod)
	case assigned(oldPod) && !assigned(newPod):
		// The binding of a pod cannot be undone, unless etcd is restored from a backup.
		h.podDeleted(oldPod, false)
		h.podAdded(newPod)
	case assigned(oldPod):
		h.assignedPodUpdated(oldPod, newPod)
	case assigned(newPod):
		// The pod was bound: by livesched, as the cache expects, or by another component, in which
		// case the pod may still be queued. It leaves the queue before its group, which then needs
		// fewer others, can be popped with it.
		start := time.Now()
		h.addToCache(newPod)
		deleting := time.Now()
		nominated := h.nominatedNode(oldPod)
		h.queue.Delete(eventLogger(), oldPod)
		observeSince(deleting, schedframework.EventUnscheduledPodDelete)
		h.noteAssigned(start, newPod)
		if nominated != "" && nominated != newPod.Spec.NodeName {
			h.queue.NominationEnded(eventLogger(), oldPod, nominated)
		}
		h.resizeAdded(newPod)
	default:
		h.pendingPodUpdated(oldPod, newPod)
	}
}

func (h *handlers) podDeleted(pod *corev1.Pod, stale bool) {
	// The node of a stale object may be outdated; the cache knows the right one. A pod that is
	// being bound is rejected, not only removed, so that it does not wait on Permit for nothing.
	h.groupMemberGone(pod)
	if assigned(pod) || stale && !isAssumed(h.cache, pod) {
		h.assignedPodDeleted(pod)
	}
	if !assigned(pod) {
		h.pendingPodDeleted(pod)
	} else {
		h.resizeDeleted(pod)
	}
}

func (h *handlers) assignedPodAdded(pod *corev1.Pod) {
	start := time.Now()
	h.addToCache(pod)
	h.noteAssigned(start, pod)
}

func (h *handlers) addToCache(pod *corev1.Pod) {
	logger := eventLogger()
	if err := h.cache.AddPod(logger, pod); err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Adding a pod to the cache failed", "pod", klog.KObj(pod))
	}
}

// noteAssigned tells the group of a pod and the queue that the pod is on its node.
func (h *handlers) noteAssigned(start time.Time, pod *corev1.Pod) {
	h.groupMemberAssigned(pod)
	h.observed(start, schedframework.EventAssignedPodAdd, nil, pod)
}

func (h *handlers) assignedPodUpdated(oldPod, newPod *corev1.Pod) {
	start := time.Now()
	logger := eventLogger()
	if err := h.cache.UpdatePod(logger, oldPod, newPod); err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Updating a pod in the cache failed", "pod", klog.KObj(newPod))
	}
	// The deletion of a pod cannot be undone, nor can the pod get another node, unless etcd is
	// restored from a backup.
	moved := oldPod.Spec.NodeName != newPod.Spec.NodeName
	ended, ends := oldPod.DeletionTimestamp != nil, newPod.DeletionTimestamp != nil
	switch {
	case ends != ended, podgroup.KeyOf(oldPod) != podgroup.KeyOf(newPod):
		h.groupMemberGone(oldPod)
		h.groupMemberAssigned(newPod)
	case moved:
		h.groupMemberAssigned(newPod)
	}
	if moved || ended && !ends {
		// Pods that are nominated for its node wait for it to end, which it no longer does there.
		h.observed(start, schedframework.EventAssignedPodDelete, oldPod, nil)
	}
	if moved {
		h.observed(start, schedframework.EventAssignedPodAdd, nil, newPod)
	}
	h.resizeUpdated(oldPod, newPod)
	events := schedframework.PodSchedulingPropertiesChange(newPod, oldPod, false)
	h.observedEach(start, events, oldPod, newPod)
	observeUpdate(start, schedframework.EventAssignedPodUpdate, events)
}

func (h *handlers) assignedPodDeleted(pod *corev1.Pod) {
	start := time.Now()
	logger := eventLogger()
	// A stale object may be a pod that was never assigned, and that the cache does not know.
	if err := h.cache.RemovePod(logger, pod); err != nil && !errors.Is(err, cache.ErrUnknownPod) {
		utilruntime.HandleErrorWithLogger(logger, err, "Removing a pod from the cache failed", "pod", klog.KObj(pod))
	}
	h.observed(start, schedframework.EventAssignedPodDelete, pod, nil)
}

func (h *handlers) pendingPodUpdated(oldPod, newPod *corev1.Pod) {
	// An update that carries the same object, as a re-list does, would queue a pod that is in its
	// cycle a second time (kubernetes/kubernetes#96071).
	if oldPod.ResourceVersion == newPod.ResourceVersion {
		return
	}
	start := time.Now()
	logger := eventLogger()
	events := schedframework.PodSchedulingPropertiesChange(newPod, oldPod, false)
	defer func() {
		observeUpdate(start, schedframework.EventUnscheduledPodUpdate, events)
		for _, event := range events {
			observeSince(start, event)
		}
	}()
	if isAssumed(h.cache, newPod) {
		if newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil {
			h.assumedPodDeleted(newPod)
		}
		h.queue.UpdateAssumed(logger, oldPod, newPod)
		return
	}
	deleted := newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil
	inStatus, inMemory := oldPod.Status.NominatedNodeName, h.queue.Nominator().NodeOf(oldPod.UID)
	h.queue.Update(logger, oldPod, newPod)
	switch {
	case inMemory != "" && inMemory != h.queue.Nominator().NodeOf(newPod.UID):
		h.queue.NominationEnded(logger, oldPod, inMemory)
	case inStatus != "" && (deleted || inStatus != newPod.Status.NominatedNodeName):
		h.queue.NominationEnded(logger, oldPod, inStatus)
	}
}

// nominatedNode returns the node for which a pod is nominated, which its status may not name yet.
func (h *handlers) nominatedNode(pod *corev1.Pod) string {
	return cmp.Or(h.queue.Nominator().NodeOf(pod.UID), pod.Status.NominatedNodeName)
}

func (h *handlers) pendingPodDeleted(pod *corev1.Pod) {
	start := time.Now()
	defer observeSince(start, schedframework.EventUnscheduledPodDelete)
	nominated := h.nominatedNode(pod)
	h.queue.Delete(eventLogger(), pod)
	switch {
	case isAssumed(h.cache, pod):
		h.assumedPodDeleted(pod)
	case nominated != "":
		h.queue.NominationEnded(eventLogger(), pod, nominated)
	}
}

// assumedPodDeleted frees the resources of a pod that is deleted while it is being bound. It does
// not matter which profile placed the pod, or whether that still exists: all profiles share the
// cache and the waiting pods.
func (h *handlers) assumedPodDeleted(pod *corev1.Pod) {
	logger := eventLogger()
	assumed, err := h.cache.GetPod(pod)
	if err != nil {
		return // its binding cycle has ended in the meantime, with or without success
	}
	// A pod that waits on Permit is rejected and undone by its own binding cycle. One in PreBind or
	// Bind cannot be stopped, and will fail since the pod is gone: free its resources now. One at
	// the barrier of its group would wait there, and keep the others waiting: end that.
	if !h.waiting.Reject(pod.UID) {
		if p := h.preBinding.Get(pod.UID); p != nil && podgroup.KeyOf(pod) != (podgroup.Key{}) {
			p.CancelPod("the pod was deleted")
		}
		if err := h.cache.ForgetPod(logger, assumed); err != nil {
			utilruntime.HandleErrorWithLogger(logger, err, "Forgetting a deleted pod failed", "pod", klog.KObj(pod))
		}
	}
	h.queue.Move(eventLogger(), schedframework.EventAssignedPodDelete, assumed, nil, nil)
}

// isAssumed reports whether a pod is assumed in the cache.
func isAssumed(c *cache.Cache, pod *corev1.Pod) bool {
	assumed, err := c.IsAssumedPod(pod)
	if err != nil {
		utilruntime.HandleErrorWithLogger(eventLogger(), err, "Looking up whether a pod is assumed failed", "pod",
			klog.KObj(pod))
		return false
	}
	return assumed
}

func assigned(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }
