// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// readTimeout bounds one try to read a pod whose binding failed, or a claim of it.
const readTimeout = 5 * time.Second

// readBackoff is the time between tries: it doubles up to the cap, and stays there.
var readBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 10, Cap: 2 * time.Second}

// outcome is where a pod is after its binding cycle.
type outcome int

const (
	// unbound: the pod is on no node, or livesched may not read it.
	unbound outcome = iota
	// boundHere: the pod is on its node. If a Bind plugin failed, only the answer was lost or came
	// too late (kubernetes/kubernetes#96579).
	boundHere
	// lost: the pod is gone, or another component bound it to another node.
	lost
)

// verify reads from the API server where a pod is after a Bind plugin failed: informers may be
// older than the call. Otherwise a bound pod would get a condition that it is not bound, and lose
// its reservations, and its room would be given to another pod. Without an answer it tries again
// until ctx ends: the pod keeps its room, and its place in Limit, as long as it may be bound.
func (b *Binder) verify(ctx context.Context, c *Cycle) outcome {
	pod := c.Pod.Pod
	now, err := b.read(ctx, pod)
	switch {
	case apierrors.IsNotFound(err):
		return lost
	case err != nil:
		klog.FromContext(ctx).Error(err, "Reading a pod whose binding failed", "pod", klog.KObj(pod))
		return unbound
	case now.UID != pod.UID:
		return lost
	case now.Spec.NodeName == "":
		return unbound
	case now.Spec.NodeName == c.NodeName:
		return boundHere
	}
	return lost
}

// read reads the pod until there is an answer, none can be expected, or ctx ends.
func (b *Binder) read(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return readUntilAnswered(ctx, klog.KObj(pod),
		func(ctx context.Context) (*corev1.Pod, error) { return b.get(ctx, pod) })
}

// get reads the pod once.
func (b *Binder) get(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return b.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
}

// readUntilAnswered reads an object of a pod whose binding cycle failed, until there is an answer,
// none can be expected, or ctx ends.
func readUntilAnswered[T any](ctx context.Context, pod klog.ObjectRef,
	read func(context.Context) (T, error)) (now T, err error) {
	failures := 0
	waitErr := readBackoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		now, err = read(ctx)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return true, nil
		}
		if failures++; failures == readBackoff.Steps {
			klog.FromContext(ctx).
				Error(err, "The pod keeps its room and devices, since it is unknown what was written; trying again",
					"pod", pod)
		}
		return false, nil
	})
	if err == nil {
		err = waitErr // ctx ended before the first try
	}
	return now, err
}
