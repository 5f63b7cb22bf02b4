// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package groupcondition writes into the status of Kubernetes' PodGroups whether they are
// scheduled, as kube-scheduler does.
package groupcondition

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha2"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/truncate"
)

const (
	// workers write conditions, of one group each at a time.
	workers = 4
	// attempts is how often a condition is written at most, if the API server does not take it.
	attempts = 5
	// The time before the second attempt, and the most before another one.
	firstRetry, maxRetry = 200 * time.Millisecond, 10 * time.Second
	// maxRecent bounds the groups whose last written condition is remembered.
	maxRecent = 4096
	// maxMessage bounds the message of a condition, in bytes. The API server accepts 32 KiB.
	maxMessage = 8 << 10
)

// reasonScheduled is the reason of the condition of a group that is scheduled. The API has no
// constant for it.
const reasonScheduled = "Scheduled"

// Writer writes the condition PodGroupScheduled of Kubernetes' PodGroups in its own goroutines, so
// that the scheduling loop does not wait for them. Only the latest condition of a group counts. A
// group that has been scheduled stays so: what becomes of further pods changes nothing.
//
// Its methods may be called from any goroutine. A nil Writer writes nothing.
type Writer struct {
	client  clientset.Interface
	groups  schedulinglisters.PodGroupLister
	running sync.WaitGroup
	cancel  context.CancelFunc // ends calls in progress; set by Start
	queue   workqueue.TypedRateLimitingInterface[types.UID]

	mu sync.Mutex // guards the fields below
	// pending are the conditions to write, by the UIDs of the groups.
	pending map[types.UID]change
	// recent holds the conditions that were written last by UID, which the lister may not have.
	recent *lru.Cache
}

// change is a condition that a group is to get.
type change struct {
	key       podgroup.Key
	condition metav1.Condition
}

// NewWriter returns a Writer that does nothing until Start.
func NewWriter(client clientset.Interface, groups schedulinglisters.PodGroupLister) *Writer {
	return &Writer{
		client: client, groups: groups, pending: map[types.UID]change{}, recent: lru.New(maxRecent),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstRetry, maxRetry)),
	}
}

// Start begins to write. It returns immediately. ctx provides values such as the logger; its end
// stops nothing.
func (w *Writer) Start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for range workers {
		w.running.Go(func() {
			for w.writeNext(ctx) {
			}
		})
	}
}

// Close writes the remaining conditions until ctx ends, and returns when all goroutines of the
// Writer have ended.
func (w *Writer) Close(ctx context.Context) {
	w.queue.ShutDown()
	stop := context.AfterFunc(ctx, w.cancel)
	defer stop()
	w.running.Wait()
	w.cancel()
}

// Scheduled records that enough pods of a group have a node, later. It never waits. It ignores
// groups of another source than Kubernetes, as the other methods do.
func (w *Writer) Scheduled(key podgroup.Key) {
	w.set(key, metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonScheduled})
}

// Unschedulable records that a group fits nowhere, and why.
func (w *Writer) Unschedulable(key podgroup.Key, message string) {
	w.set(key, metav1.Condition{Status: metav1.ConditionFalse, Reason: schedulingv1alpha2.PodGroupReasonUnschedulable, Message: message})
}

// Failed records that a group could not be scheduled because of an error.
func (w *Writer) Failed(key podgroup.Key, err error) {
	w.set(key, metav1.Condition{Status: metav1.ConditionFalse, Reason: schedulingv1alpha2.PodGroupReasonSchedulerError, Message: err.Error()})
}

func (w *Writer) set(key podgroup.Key, condition metav1.Condition) {
	if w == nil || key.Source != podgroup.Kubernetes {
		return
	}
	group, err := w.groups.PodGroups(key.Namespace).Get(key.Name)
	if err != nil {
		return // it is gone
	}
	condition.Type = schedulingv1alpha2.PodGroupScheduled
	condition.ObservedGeneration = group.Generation
	condition.Message = truncate.ToBytes(condition.Message, maxMessage)
	w.mu.Lock()
	defer w.mu.Unlock()
	current := w.currentLocked(group)
	if next, waits := w.pending[group.UID]; waits {
		current = &next.condition
	}
	if !differs(current, &condition) {
		return
	}
	w.pending[group.UID] = change{key: key, condition: condition}
	w.queue.Add(group.UID)
}

// currentLocked returns the condition that a group has, nil if it has none.
func (w *Writer) currentLocked(group *schedulingv1alpha2.PodGroup) *metav1.Condition {
	if written, ok := w.recent.Get(group.UID); ok {
		return written.(*metav1.Condition)
	}
	return meta.FindStatusCondition(group.Status.Conditions, schedulingv1alpha2.PodGroupScheduled)
}

// differs reports whether a group must get a condition in place of the current one.
func differs(current, next *metav1.Condition) bool {
	switch {
	case current == nil:
		return true
	case current.Status == metav1.ConditionTrue && next.Status != metav1.ConditionTrue:
		return false
	}
	return current.Status != next.Status || current.Reason != next.Reason || current.Message != next.Message ||
		current.ObservedGeneration != next.ObservedGeneration
}

// writeNext writes one condition. It returns false when the Writer is closed and all are written.
func (w *Writer) writeNext(ctx context.Context) bool {
	uid, closed := w.queue.Get()
	if closed {
		return false
	}
	defer w.queue.Done(uid)
	w.mu.Lock()
	next, waits := w.pending[uid]
	delete(w.pending, uid)
	w.mu.Unlock()
	if !waits || ctx.Err() != nil {
		return true
	}
	err := w.write(ctx, uid, next)
	switch {
	case err == nil, podstatus.IsGone(err):
		w.queue.Forget(uid)
	case w.queue.NumRequeues(uid) < attempts-1 && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
		w.mu.Lock()
		if _, newer := w.pending[uid]; !newer {
			w.pending[uid] = next
		}
		w.mu.Unlock()
		w.queue.AddRateLimited(uid)
	default:
		w.queue.Forget(uid)
		klog.FromContext(ctx).Error(err, "Writing the condition of a PodGroup failed", "podGroup", klog.KRef(next.key.Namespace, next.key.Name))
	}
	return true
}

// write writes a condition, unless the group has it already or was replaced by another one.
func (w *Writer) write(ctx context.Context, uid types.UID, next change) error {
	group, err := w.groups.PodGroups(next.key.Namespace).Get(next.key.Name)
	if err != nil || group.UID != uid {
		return nil
	}
	w.mu.Lock()
	current := w.currentLocked(group)
	w.mu.Unlock()
	if !differs(current, &next.condition) {
		return nil
	}
	condition := next.condition
	condition.LastTransitionTime = metav1.Now()
	if current != nil && current.Status == condition.Status {
		condition.LastTransitionTime = current.LastTransitionTime
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid}, // the API server compares it
		"status":   map[string]any{"conditions": []metav1.Condition{condition}},
	})
	if err != nil {
		return err
	}
	_, err = w.client.SchedulingV1alpha2().PodGroups(next.key.Namespace).
		Patch(ctx, next.key.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recent.Add(uid, &condition)
	return nil
}
