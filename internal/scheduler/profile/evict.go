// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/internal/scheduler/podstatus"
)

// clearNominations takes back the nominations for the node of pods that are less important than the
// preemptor, so that they look for another place at once. It returns false if that failed for some;
// the preemption goes on.
func (p *preemptions) clearNominations(ctx context.Context, r *preemptionRun) bool {
	done := true
	for _, pod := range p.lessImportant(r) {
		if pod.Status.NominatedNodeName == "" {
			continue // known to us alone so far
		}
		status := pod.Status.DeepCopy()
		status.NominatedNodeName = ""
		if err := podstatus.Patch(ctx, p.env.Client, pod, status); err != nil && !podstatus.IsGone(err) {
			done = false
			utilruntime.HandleErrorWithContext(ctx, err, "Taking back the nomination of a less important pod failed", "pod", klog.KObj(pod))
		}
	}
	return done
}

// evictAll evicts the victims, several at a time. It returns false if one could not be evicted, in
// which case those that were not begun with are left alone: without the one their going is of no
// use.
func (p *preemptions) evictAll(ctx context.Context, handle *Handle, r *preemptionRun) bool {
	var failed atomic.Bool
	handle.Parallelizer().Until(ctx, len(r.victims), func(i int) {
		v := r.victims[i]
		if failed.Load() {
			p.become(v, spared)
			return
		}
		if err := p.evict(ctx, handle, r, v); err != nil {
			p.become(v, spared)
			failed.Store(true)
			utilruntime.HandleErrorWithContext(ctx, err, "Evicting a victim failed", "victim", klog.KObj(v.pod))
		}
	}, r.plugin)
	return !failed.Load() && ctx.Err() == nil
}

// evict makes one victim go, and tells its owner. One that is not bound yet is put back into the
// queue instead.
func (p *preemptions) evict(ctx context.Context, handle *Handle, r *preemptionRun, v *victim) error {
	logger := klog.FromContext(ctx)
	note := fmt.Sprintf("Preempted by pod %v on node %v", r.preemptor.UID, r.node)
	inMemory := p.putBack(r, v)
	if inMemory {
		note += " (in kube-scheduler memory)."
	} else {
		there, err := p.delete(ctx, r.preemptor, v.pod)
		if err != nil {
			return err
		}
		p.become(v, deleted)
		if !there {
			logger.V(2).Info("The victim is gone already", "victim", klog.KObj(v.pod))
			return nil
		}
	}
	logger.V(2).Info("Evicted a victim", "victim", klog.KObj(v.pod), "inMemory", inMemory)
	handle.EventRecorder().WithLogger(logger).Eventf(v.pod, r.preemptor, corev1.EventTypeNormal, "Preempted", "Preempting", "%s", note)
	return nil
}

// become notes what has become of a victim.
func (p *preemptions) become(v *victim, state victimState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v.state = state
}

// putBack ends the binding cycle of a pod that waits on Permit or is in PreBind, and says whether
// there was one to end, or that has been ended by another preemption and is being undone.
func (p *preemptions) putBack(r *preemptionRun, v *victim) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ended := p.leaving[v.pod]
	if !ended {
		if waiting := p.env.WaitingPods.Get(v.pod.UID); waiting != nil {
			ended = waiting.Preempt(r.plugin, "preempted")
		} else if preparing := p.env.PodsInPreBind.Get(v.pod.UID); preparing != nil {
			ended = preparing.CancelPod("preempted by " + r.plugin)
		}
	}
	if ended {
		v.state = putBack
		p.leaving[v.pod] = struct{}{}
	}
	return ended
}

// delete deletes a pod and says in its status why. It returns false if there is none any more. A
// pod of that name with another UID is another pod.
func (p *preemptions) delete(ctx context.Context, preemptor, pod *corev1.Pod) (there bool, err error) {
	err = p.patchDisruption(ctx, preemptor, pod)
	switch {
	case podstatus.IsGone(err):
		return false, nil
	case err != nil && !apierrors.IsConflict(err): // whose pod it is, the next call tells
		return true, fmt.Errorf("adding the condition %s: %w", corev1.DisruptionTarget, err)
	}
	err = p.env.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return true, fmt.Errorf("deleting it: %w", err)
	}
	return true, nil
}

// patchDisruption adds the condition that tells a pod's owner, job controllers above all, that it
// was preempted (KEP-3329), unless the pod has it.
func (p *preemptions) patchDisruption(ctx context.Context, preemptor, pod *corev1.Pod) error {
	condition := &corev1.PodCondition{
		Type:               corev1.DisruptionTarget,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.DisruptionTarget),
		Status:             corev1.ConditionTrue,
		Reason:             corev1.PodReasonPreemptionByScheduler,
		Message:            fmt.Sprintf("%s: preempting to accommodate a higher priority pod", preemptor.Spec.SchedulerName),
	}
	status := pod.Status.DeepCopy()
	if !podutil.UpdatePodCondition(status, condition) {
		return nil
	}
	return podstatus.Patch(ctx, p.env.Client, pod, status)
}
