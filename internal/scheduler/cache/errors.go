// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

var (
	// ErrUnknownPod is returned by RemovePod and GetPod for a pod that is not in the cache. After a
	// deletion that the informer noticed by a re-list, this is not an error: the pod may never have
	// been assigned.
	ErrUnknownPod = errors.New("pod is not in the scheduler cache")
	// ErrUnknownNode is returned by RemoveNode and Overlay.Place for a node that is not in the
	// cache.
	ErrUnknownNode = errors.New("node is not in the scheduler cache")
	// ErrKnownPod is returned by AssumePod and Overlay.Commit for a pod that is in the cache
	// already, assumed or added, and by Overlay.Place for one that is on the node already.
	ErrKnownPod = errors.New("pod is in the scheduler cache already")
	// ErrNotAssumed is returned by ForgetPod for a pod that was confirmed by the API server, or
	// that is assumed on another node.
	ErrNotAssumed = errors.New("pod is not assumed on this node")
	// ErrIncompletePod is returned for a pod that has no UID, or no node where one is needed.
	ErrIncompletePod = errors.New("pod cannot be held in the scheduler cache")
)

func podError(err error, pod *corev1.Pod, detail string) error {
	if detail != "" {
		detail = ": " + detail
	}
	return fmt.Errorf("%w: %v (UID %q)%s", err, klog.KObj(pod), pod.UID, detail)
}

// checkIdentity refuses a pod that cannot be identified.
func checkIdentity(pod *corev1.Pod) error {
	if pod.UID == "" {
		return podError(ErrIncompletePod, pod, "metadata.uid is empty")
	}
	return nil
}

// checkAssigned refuses a pod that cannot be put on a node.
func checkAssigned(pod *corev1.Pod) error {
	if err := checkIdentity(pod); err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return podError(ErrIncompletePod, pod, "spec.nodeName is empty")
	}
	return nil
}
