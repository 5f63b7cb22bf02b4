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

// readTimeout bounds the reading of a pod whose binding failed. Its reservations stay until then.
const readTimeout = 5 * time.Second

// readBackoff is the time between tries to read the pod, until readTimeout.
var readBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 10}

// outcome is where a pod is after its binding cycle.
type outcome int

const (
	// unbound: the pod is on no node, or its node is not known.
	unbound outcome = iota
	// boundHere: the pod is on its node. If a Bind plugin failed, only the answer was lost or came
	// too late (kubernetes/kubernetes#96579).
	boundHere
	// lost: the pod is gone, or another component bound it to another node.
	lost
)

// verify reads from the API server where a pod is after a Bind plugin failed: informers may be
// older than the call. Otherwise a bound pod would get a condition that it is not bound, and lose
// its reservations, and its resources would seem free for a moment. Without an answer it tries
// again for a while: an API server that lost one answer may lose the next.
func (b *Binder) verify(ctx context.Context, c *Cycle) outcome {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
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

// read reads the pod until there is an answer, or none can be expected.
func (b *Binder) read(ctx context.Context, pod *corev1.Pod) (now *corev1.Pod, err error) {
	waitErr := wait.ExponentialBackoffWithContext(ctx, readBackoff, func(ctx context.Context) (bool, error) {
		now, err = b.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err), nil
	})
	if err == nil {
		err = waitErr // ctx ended before the first try
	}
	return now, err
}
