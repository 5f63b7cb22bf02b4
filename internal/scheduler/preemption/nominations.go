// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
)

// clearNominations clears the nominations of less important pods for the node of a preemption, so
// that they are scheduled again immediately. It returns false if that failed for one of them; the
// preemption continues.
func (e *Evictor) clearNominations(ctx context.Context, p *preemption) bool {
	cleared := true
	for _, pod := range LosesNomination(e.Nominator, p.preemptor, p.node) {
		if err := e.clearNomination(ctx, pod); err != nil && !podstatus.IsGone(err) {
			cleared = false
			utilruntime.HandleErrorWithContext(ctx, err, "Clearing the nomination of a less important pod failed",
				"pod", klog.KObj(pod))
		}
	}
	return cleared
}

// clearNomination clears the nomination of a pod when there is a place for the call.
func (e *Evictor) clearNomination(ctx context.Context, pod *corev1.Pod) error {
	leave, err := e.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return podstatus.Patch(ctx, e.Client, podstatus.Update{Pod: pod,
		Nominating: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}})
}

// LosesNomination returns the pods whose nominations for a node end when the preemptor preempts
// pods there: the pods of a lower priority, except for nominations that the API server does not
// know.
func LosesNomination(nominator framework.Nominator, preemptor *corev1.Pod, node string) []*corev1.Pod {
	priority := corev1helpers.PodPriority(preemptor)
	var pods []*corev1.Pod
	for _, info := range nominator.NominatedPodsForNode(node) {
		if pod := info.GetPod(); corev1helpers.PodPriority(pod) < priority && pod.Status.NominatedNodeName != "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// isNominated reports whether the preemptor is still nominated for the node of a preemption.
func (e *Evictor) isNominated(p *preemption) bool {
	return e.Nominator.NodeOf(p.preemptor.UID) == p.node
}
