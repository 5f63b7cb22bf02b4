// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// A pod whose resize its kubelet has deferred is in the cache, on its node, and in the queue at
// once (KEP 5836, with Config.DeferredResizes). An attempt at it makes room on that node; the
// kubelet does the rest. So the pod stays in the queue until the resize is not deferred any more.
//
// Such an entry moves like any other. It differs in these points: it is in no group, it is not
// nominated, and nothing is reported to its owner while it is held.

// DeferredResizes is [Config.DeferredResizes].
func (q *Queue) DeferredResizes() bool { return q.deferredResizes }

// admits reports whether a pod may be in the queue: it is on no node yet, or its resize is
// deferred.
func (q *Queue) admits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" || q.deferredResizes && podfields.ResizeDeferred(pod)
}

// latest is the function latest with the pods that the queue admits.
func (q *Queue) latest(pod *corev1.Pod) (newest *corev1.Pod, reason string) {
	newest, reason = latest(q.podLister, pod)
	if reason == "" || !q.deferredResizes {
		return newest, reason
	}
	known, err := q.podLister.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || known.UID != pod.UID || !q.admits(known) {
		return nil, reason
	}
	return known, ""
}

// resizes reports whether the entry is a pod that is on its node, and whose resize is deferred.
func (e *entry) resizes() bool { return e.pod.Spec.NodeName != "" }
