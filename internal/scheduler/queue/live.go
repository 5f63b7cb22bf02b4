// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1listers "k8s.io/client-go/listers/core/v1"
)

// Errors of Requeue, wrapped with the pod's name.
var (
	// ErrGone means that the pod must not be scheduled any more: it was deleted, re-created under
	// the same name, or assigned to a node. The queue has released it.
	ErrGone = errors.New("the pod is gone")
	// ErrAlreadyQueued means that the pod was queued again since it was popped. The queue does not
	// change.
	ErrAlreadyQueued = errors.New("the pod is in the scheduling queue already")
)

// Wanted reports whether a popped pod may still be bound: according to the informer cache it has no
// node, and is not deleted or about to be.
func (q *Queue) Wanted(pod *corev1.Pod) bool {
	newest, reason := latest(q.podLister, pod)
	return reason == "" && (newest == nil || newest.DeletionTimestamp == nil)
}

// gone returns why a pod must not be scheduled any more according to the informer cache, "" if it
// may be scheduled. Informers change their cache before they call handlers. So if the cache has the
// pod while Queue.mu or Nominator.mu is held, its deletion has not been handled yet: the handler
// would still need the lock.
func gone(pods corev1listers.PodLister, pod *corev1.Pod) string {
	_, reason := latest(pods, pod)
	return reason
}

// latest returns the newest version of a pod, nil without a lister, and why it must not be
// scheduled any more, as gone does.
func latest(pods corev1listers.PodLister, pod *corev1.Pod) (*corev1.Pod, string) {
	if pods == nil {
		return nil, ""
	}
	known, err := pods.Pods(pod.Namespace).Get(pod.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "deleted"
	case err != nil:
		return nil, "" // cache listers return no other error; keeping the pod is safer than losing it
	case known.UID != pod.UID:
		return nil, "re-created"
	case known.Spec.NodeName != "":
		return nil, "assigned to node " + known.Spec.NodeName
	}
	return known, ""
}
