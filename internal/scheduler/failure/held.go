// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/groupcondition"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/truncate"
)

const (
	// reasonHeld is the reason of the condition of a pod that is held. The API has it as
	// PodReasonPreEnqueueRejected.
	reasonHeld = "PreEnqueueRejected"
	// heldInterval is the interval between searches for pods that have been held for a while.
	heldInterval = time.Second
	// maxHeld bounds the pods that are reported in an interval, so that thousands of pods that wait
	// for one thing do not take the API server's time from bindings.
	maxHeld = 100
)

// ReportHeld writes Events and conditions for pods that PreEnqueue plugins hold, and conditions of
// groups that lack pods, and ends the nominations of pods whose groups are incomplete for long,
// until ctx ends. The leader calls it, in a goroutine of its own.
func (h *Handler) ReportHeld(ctx context.Context, c clock.WithTicker, groups *groupcondition.Writer) {
	ticker := c.NewTicker(heldInterval)
	defer ticker.Stop()
	logger := klog.FromContext(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if h.Term.Check() != nil {
				continue // another replica may lead, which reports them
			}
			for _, pod := range h.Queue.TendHeldGroups(logger) {
				h.Statuses.Write(podstatus.Update{Pod: pod, Nominating: ClearNomination})
			}
			h.Queue.ReportHeld(maxHeld, func(held queue.Held) bool {
				if held.Plugin == podgroup.Gate {
					groups.Incomplete(podgroup.KeyOf(held.Pod), held.Message)
				}
				return h.reportHeld(logger, held)
			})
		}
	}
}

// reportHeld reports why a pod is held, and returns true, unless the pod's status has that already:
// then this leader or the one before has reported it. The queue's lock is held. Neither call blocks
// or calls the queue.
func (h *Handler) reportHeld(logger klog.Logger, held queue.Held) bool {
	pod := held.Pod
	condition := unscheduledCondition(pod, reasonHeld, heldMessage(held.HoldReason))
	_, written := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	last := h.Statuses.Condition(pod.UID) // which informers may not have
	// The status could not be written when the nomination ended.
	if held.NominationEnded {
		h.Statuses.Write(podstatus.Update{Pod: pod, Nominating: ClearNomination})
	}
	if written != nil && podstatus.SameCondition(written, condition) &&
		(last == nil || podstatus.SameCondition(last, condition)) {
		return held.NominationEnded
	}
	logger.V(2).Info("The pod is held before its scheduling", "pod", klog.KObj(pod), "reason", condition.Message)
	h.Recorder(pod.Spec.SchedulerName).WithLogger(logger).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling",
		"Scheduling",
		"%s", truncate.ToBytes(condition.Message, validation.NoteLengthLimit))
	h.Statuses.Write(podstatus.Update{Pod: pod, Condition: condition})
	return true
}

// heldMessage returns a message for the owner of a pod that is held.
func heldMessage(r queue.HoldReason) string {
	switch r.Plugin {
	case "":
		return fmt.Sprintf("A PreEnqueue plugin failed: %s", r.Message)
	case podgroup.Gate:
		return fmt.Sprintf("The pod waits for its pod group: %s", r.Message)
	}
	return fmt.Sprintf("The PreEnqueue plugin %s holds the pod: %s", r.Plugin, r.Message)
}
