// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/podstatus"
)

// clearNominations clears the nominations of less important pods for the node of a preemption, so
// that they are scheduled again immediately. It returns false if that failed for one of them; the
// preemption continues.
func (e *Evictor) clearNominations(ctx context.Context, p *preemption) bool {
	cleared := true
	for _, pod := range e.lessImportant(p) {
		if pod.Status.NominatedNodeName == "" {
			continue // the API server does not know of the nomination
		}
		status := pod.Status.DeepCopy()
		status.NominatedNodeName = ""
		if err := podstatus.Patch(ctx, e.Client, pod, status); err != nil && !podstatus.IsGone(err) {
			cleared = false
			utilruntime.HandleErrorWithContext(ctx, err, "Clearing the nomination of a less important pod failed", "pod", klog.KObj(pod))
		}
	}
	return cleared
}

// lessImportant returns the pods with a lower priority that are nominated for the node of a
// preemption.
func (e *Evictor) lessImportant(p *preemption) []*corev1.Pod {
	priority := corev1helpers.PodPriority(p.preemptor)
	var pods []*corev1.Pod
	for _, info := range e.Queue.NominatedPodsForNode(p.node) {
		if pod := info.GetPod(); corev1helpers.PodPriority(pod) < priority {
			pods = append(pods, pod)
		}
	}
	return pods
}

// isNominated reports whether the preemptor is still nominated for the node of a preemption.
func (e *Evictor) isNominated(p *preemption) bool {
	for _, info := range e.Queue.NominatedPodsForNode(p.node) {
		if info.GetPod().UID == p.preemptor.UID {
			return true
		}
	}
	return false
}
