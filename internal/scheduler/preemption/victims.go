// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/internal/scheduler/podstatus"
)

// victim is a pod to evict, as the snapshot had it.
type victim struct {
	pod   *corev1.Pod
	state victimState
	// deletedAt is when the API server accepted the deletion.
	deletedAt time.Time
	// left means that the cache or the snapshot has known of its deletion.
	left bool
}

// lostAfter is when a deletion that no informer has reported counts as lost.
const lostAfter = 2 * time.Minute

// isBack notes what is known of a victim, nil if it is gone. It reports whether the pod runs again
// although its deletion was accepted, as when etcd was restored from a backup: informers have
// reported the deletion, perhaps before the API server answered, or should have by now.
func (v *victim) isBack(known *corev1.Pod) bool {
	leaves := known == nil || known.DeletionTimestamp != nil
	v.left = v.left || leaves
	return v.state == deleted && !leaves && (v.left || time.Since(v.deletedAt) > lostAfter)
}

type victimState int

const (
	// pending: its eviction has not ended.
	pending victimState = iota
	// deleted: the API server has accepted its deletion, or has no such pod.
	deleted
	// rejected: it was assumed but not bound, and its binding cycle was ended.
	rejected
	// failed: its eviction failed, or was not begun because the eviction of another one had failed.
	failed
)

// isPendingLocked reports whether a victim is still to be evicted, or the cache does not know of
// its deletion. Of a victim that is put back rather than deleted, there is no deletion.
func (e *Evictor) isPendingLocked(v *victim) bool {
	if v.state == rejected || v.state == failed {
		return false
	}
	known := e.Cache.PodOf(v.pod.UID)
	if v.isBack(known) {
		return false
	}
	return known != nil && (known.DeletionTimestamp == nil || endsAtOnce(known))
}

// endsAtOnce reports whether a pod that is being deleted has nothing to wait for. The API server
// removes it in the next moment, after it has set the time of its deletion.
func endsAtOnce(pod *corev1.Pod) bool {
	return pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 && len(pod.Finalizers) == 0
}

// hasPendingLocked reports whether an eviction has pending victims. It looks at each victim that is
// not pending once: every deletion of a victim lets each pod of a group ask. A pod that was assumed
// and not bound may be assumed again afterwards; then awaited finds it on its node.
func (e *Evictor) hasPendingLocked(n *eviction) bool {
	for last := len(n.pending) - 1; last >= 0; last-- {
		if e.isPendingLocked(n.pending[last]) {
			return true
		}
		n.pending = n.pending[:last]
	}
	return false
}

func (e *Evictor) setState(v *victim, state victimState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.state = state
	if state == deleted {
		v.deletedAt = time.Now()
	}
}

// evictAll evicts the victims, several at a time. It returns false if an eviction failed. Those of
// the same preemption that had not begun by then are skipped, since without the failed one they
// make no room.
func (e *Evictor) evictAll(handle fwk.Handle, n *eviction) bool {
	var anyFailed atomic.Bool
	type task struct {
		*preemption
		*victim
		failed *atomic.Bool
	}
	var tasks []task
	for _, p := range n.preemptions {
		failed := new(atomic.Bool)
		for _, v := range p.victims {
			tasks = append(tasks, task{p, v, failed})
		}
	}
	handle.Parallelizer().Until(e.ctx, len(tasks), func(i int) {
		t := tasks[i]
		if t.failed.Load() {
			e.setState(t.victim, failed)
			return
		}
		ctx, _ := e.contextOf(t.preemption)
		if err := e.evict(ctx, handle, t.preemption, t.victim); err != nil {
			e.setState(t.victim, failed)
			t.failed.Store(true)
			anyFailed.Store(true)
			utilruntime.HandleErrorWithContext(ctx, err, "Evicting a victim failed", "victim", klog.KObj(t.pod))
		}
	}, n.preemptions[0].plugin)
	return !anyFailed.Load() && e.ctx.Err() == nil
}

// evict deletes a victim, or ends its binding cycle if it is not bound yet, and writes an Event
// about it.
func (e *Evictor) evict(ctx context.Context, handle fwk.Handle, p *preemption, v *victim) error {
	logger := klog.FromContext(ctx)
	note := fmt.Sprintf("Preempted by pod %v on node %v", p.preemptor.UID, p.node)
	inMemory := e.reject(p, v)
	if inMemory {
		note += " (in kube-scheduler memory)."
	} else {
		existed, err := e.deletePod(ctx, p.preemptor, v.pod)
		if err != nil {
			return err
		}
		e.setState(v, deleted)
		if !existed {
			logger.V(2).Info("The victim is gone already", "victim", klog.KObj(v.pod))
			return nil
		}
	}
	logger.V(2).Info("Evicted a victim", "victim", klog.KObj(v.pod), "inMemory", inMemory)
	handle.EventRecorder().WithLogger(logger).Eventf(v.pod, p.preemptor, corev1.EventTypeNormal, "Preempted",
		"Preempting", "%s", note)
	return nil
}

// reject ends the binding cycle of a victim that waits on Permit or is in PreBind, which puts the
// pod back into the queue. It returns false for any other victim. If another preemption has ended
// the cycle, and it is being undone, reject returns true.
func (e *Evictor) reject(p *preemption, v *victim) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ended := e.rejected[v.pod]
	if !ended {
		if waiting := e.WaitingPods.Get(v.pod.UID); waiting != nil {
			ended = waiting.Preempt(p.plugin, "preempted")
		} else if preBinding := e.PodsInPreBind.Get(v.pod.UID); preBinding != nil {
			ended = preBinding.CancelPod("preempted by " + p.plugin)
		}
	}
	if ended {
		v.state = rejected
		e.rejected[v.pod] = struct{}{}
	}
	return ended
}

// deletePod deletes a pod, after it has added the condition with the reason. It returns false if
// the pod does not exist any more; one of the same name with another UID is another pod.
func (e *Evictor) deletePod(ctx context.Context, preemptor, pod *corev1.Pod) (existed bool, err error) {
	leave, err := e.enter(ctx)
	if err != nil {
		return true, err
	}
	defer leave()
	err = e.addDisruptionTarget(ctx, preemptor, pod)
	switch {
	case podstatus.IsGone(err):
		return false, nil
	// After a conflict, the deletion shows whether this is the pod.
	case err != nil && !apierrors.IsConflict(err):
		return true, fmt.Errorf("adding the condition %s: %w", corev1.DisruptionTarget, err)
	}
	err = e.Client.CoreV1().Pods(pod.Namespace).
		Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return true, fmt.Errorf("deleting it: %w", err)
	}
	return true, nil
}

// addDisruptionTarget adds the condition that shows a pod's owner, such as a job controller, that
// the pod was preempted (KEP-3329), unless the pod has it.
func (e *Evictor) addDisruptionTarget(ctx context.Context, preemptor, pod *corev1.Pod) error {
	condition := &corev1.PodCondition{
		Type: corev1.DisruptionTarget,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation,
			corev1.DisruptionTarget),
		Status:  corev1.ConditionTrue,
		Reason:  corev1.PodReasonPreemptionByScheduler,
		Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", preemptor.Spec.SchedulerName),
	}
	return podstatus.Patch(ctx, e.Client, podstatus.Update{Pod: pod, Condition: condition})
}
