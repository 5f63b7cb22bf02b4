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
	// ErrGone means that the pod is not to be scheduled any more: it was deleted, re-created under
	// its name, or assigned to a node. It is released and not queued.
	ErrGone = errors.New("the pod is gone")
	// ErrAlreadyQueued means that the pod has been taken up anew since it was popped. What is
	// queued or in flight stays as it is.
	ErrAlreadyQueued = errors.New("the pod is in the scheduling queue already")
)

// gone says why a pod is not there to be scheduled any more according to the informers' cache, ""
// if it is. Informers change their cache before they call handlers. So a pod that is there while
// Queue.mu or Nominator.mu is held cannot have been forgotten by its deletion: the handler is yet
// to come, and waits for the lock.
func gone(pods corev1listers.PodLister, pod *corev1.Pod) string {
	_, reason := latest(pods, pod)
	return reason
}

// latest returns the newest version of a pod, and why it is not there to be scheduled any more, as
// gone does. Without a lister it is nil.
func latest(pods corev1listers.PodLister, pod *corev1.Pod) (*corev1.Pod, string) {
	if pods == nil {
		return nil, ""
	}
	known, err := pods.Pods(pod.Namespace).Get(pod.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "deleted"
	case err != nil:
		return nil, "" // no lister on a cache fails otherwise; losing the pod would be worse than keeping it
	case known.UID != pod.UID:
		return nil, "re-created"
	case known.Spec.NodeName != "":
		return nil, "assigned to node " + known.Spec.NodeName
	}
	return known, ""
}
