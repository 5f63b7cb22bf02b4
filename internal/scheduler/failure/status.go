// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientset "k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/truncate"
)

// eventStatusNotWritten requeues a pod whose condition could not be written.
var eventStatusNotWritten = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All,
	CustomLabel: "StatusNotWritten"}

// NewStatusWriter returns a Writer of the status of pods that wait to be scheduled. A pod whose
// status cannot be written is requeued.
func NewStatusWriter(client clientset.Interface, pods corev1listers.PodLister, c *cache.Cache,
	q *queue.Queue) *podstatus.Writer {
	return podstatus.NewWriter(client, pendingPods{pods: pods, cache: c, queue: q})
}

// pendingPods implements podstatus.Pods.
type pendingPods struct {
	pods  corev1listers.PodLister
	cache *cache.Cache
	queue *queue.Queue
}

// Newest returns the newest version of a pod that informers have. It is nil if the pod does not
// wait to be scheduled any more: it is gone, being deleted, bound, or being bound.
//
// An update of a pod that is being deleted without a grace period makes kube-apiserver delete it,
// by its name: if the pod was replaced in the meantime, the API server deletes the new pod
// (deleteWithoutFinalizers in k8s.io/apiserver/pkg/registry/generic/registry/store.go).
func (p pendingPods) Newest(pod *corev1.Pod) *corev1.Pod {
	newest, err := p.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || newest.UID != pod.UID || newest.DeletionTimestamp != nil || newest.Spec.NodeName != "" {
		return nil
	}
	if assumed, err := p.cache.IsAssumedPod(newest); err == nil && assumed {
		return nil
	}
	return newest
}

// NotWritten requeues a pod whose status could not be written, unless the API server would refuse
// the next attempt, too.
func (p pendingPods) NotWritten(ctx context.Context, pod *corev1.Pod, err error) {
	utilruntime.HandleErrorWithContext(ctx, err, "Writing the reason into the pod's status failed", "pod",
		klog.KObj(pod))
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		// Without an event the pod would not be retried, and its owner would not see the reason,
		// for minutes. Another attempt after a backoff reports the state at that time.
		p.queue.Move(klog.FromContext(ctx), eventStatusNotWritten, nil, pod, nil)
		p.queue.RepeatHeld(pod.UID)
	}
}

// maxMessage bounds the message of a condition, in bytes. A message may name each node, as the
// messages of extenders do, and is stored with each pod that fits nowhere.
const maxMessage = 8 << 10

// refreshInterval is how long the numbers in the condition of a member of a group may be old. The
// message is about the group, which may have thousands of members.
const refreshInterval = 5 * time.Minute

// refreshes reports whether the attempt is reported even if only numbers have changed: the pod is
// by itself, or its last attempt was in an earlier interval since its first.
func (a *Attempt) refreshes() bool {
	first := a.Pod.InitialAttemptTimestamp
	return !a.InGroup || first == nil ||
		a.Start.Sub(*first)/refreshInterval != a.Pod.Timestamp.Sub(*first)/refreshInterval
}

// differsInNumbers reports whether a pod has a condition that differs in nothing but numbers in its
// message, and words with numbers: names of nodes, pods and racks. That must be true of the one
// that informers have, and of the one that the pod gets meanwhile.
func (h *Handler) differsInNumbers(pod *corev1.Pod, next *corev1.PodCondition) bool {
	_, current := podutil.GetPodCondition(&pod.Status, next.Type)
	if current == nil || current.Message == next.Message || !sameButNumbers(current, next) {
		return false
	}
	last := h.Statuses.Condition(pod.UID)
	return last == nil || sameButNumbers(last, next)
}

func sameButNumbers(current, next *corev1.PodCondition) bool {
	if current.Status != next.Status || current.Reason != next.Reason {
		return false
	}
	return slices.EqualFunc(strings.Fields(current.Message), strings.Fields(next.Message), func(a, b string) bool {
		return a == b || strings.ContainsAny(a, digits) && strings.ContainsAny(b, digits)
	})
}

const digits = "0123456789"

// unscheduledCondition returns the condition of a pod that could not be scheduled. It cuts messages
// that are too long.
func unscheduledCondition(pod *corev1.Pod, reason, message string) *corev1.PodCondition {
	return &corev1.PodCondition{
		Type: corev1.PodScheduled,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation,
			corev1.PodScheduled),
		Status:  corev1.ConditionFalse,
		Reason:  reason,
		Message: truncate.ToBytes(message, maxMessage),
	}
}
