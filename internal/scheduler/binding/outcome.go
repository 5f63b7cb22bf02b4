// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// lookTimeout bounds the look at a pod whose binding failed. The room that was promised to it stays
// taken meanwhile.
const lookTimeout = 5 * time.Second

// lookBackoff is between tries to read the pod, until lookTimeout.
var lookBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 10}

// outcome is what became of a pod that could not be bound, as it seems.
type outcome int

const (
	// unbound: it is on no node, or nobody knows.
	unbound outcome = iota
	// boundHere: the call took place, and only its answer was lost or came too late
	// (kubernetes/kubernetes#96579).
	boundHere
	// lost: it is gone, or somebody else put it on another node.
	lost
)

// look asks the API server what became of a pod after a Bind plugin failed: what informers know may
// be older than the call. Without that, a pod that is bound would be told that it is not, its
// reservations would be given back, and its room would seem free for a moment. It asks again for a
// while if it gets no answer: an API server that lost one answer may lose the next.
func (b *Binder) look(ctx context.Context, c *Cycle) outcome {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
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

// read reads the pod until there is an answer, or no use in asking.
func (b *Binder) read(ctx context.Context, pod *corev1.Pod) (now *corev1.Pod, err error) {
	waitErr := wait.ExponentialBackoffWithContext(ctx, lookBackoff, func(ctx context.Context) (bool, error) {
		now, err = b.Read(ctx, pod)
		return err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err), nil
	})
	if err == nil {
		err = waitErr // ctx ended before the first try
	}
	return now, err
}
