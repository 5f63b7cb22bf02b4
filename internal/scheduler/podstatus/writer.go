// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/latest"
)

// workers write statuses, of one pod each at a time. With DefaultLimit of package binding they stay
// below the 100 requests that fit on a connection.
const workers = 16

// Update is a change of a pod's status.
type Update struct {
	// Pod is any version of the pod.
	Pod *corev1.Pod
	// Condition replaces the condition of its type. nil changes none.
	Condition *corev1.PodCondition
	// Nominating changes the nominated node. nil, or ModeNoop, leaves it as it is.
	Nominating *fwk.NominatingInfo
}

// Pods are the pods that wait to be scheduled.
type Pods interface {
	// Newest returns the newest version that is known of a pod, or nil if its status must not be
	// written any more: it is gone, being deleted, bound, or being bound.
	Newest(pod *corev1.Pod) *corev1.Pod
	// NotWritten handles a pod whose status could not be written. It is not called if the pod turns
	// out to be gone or bound.
	NotWritten(ctx context.Context, pod *corev1.Pod, err error)
}

// Writer writes the status of pods that could not be scheduled, in the background: see
// latest.Writer. Settle is for a pod that is about to be bound, which must not get a condition that
// it could not be scheduled. The Writer omits values that the pod already has.
//
// Its methods may be called from any goroutine.
type Writer struct {
	*latest.Writer[types.UID, Update]
}

// NewWriter returns a Writer that does nothing until Start.
func NewWriter(client clientset.Interface, pods Pods) *Writer {
	return &Writer{latest.New(latest.Config{What: "statuses of pods", Workers: workers, Attempts: 1},
		target{client: client, pods: pods})}
}

// Write writes an Update, later. It never waits.
func (w *Writer) Write(u Update) { w.Set(u.Pod.UID, u) }

// Condition returns the condition that a pod got last, or is about to get. Informers may not have
// seen it yet. It is nil if there is none, or it was written long ago.
func (w *Writer) Condition(uid types.UID) *corev1.PodCondition { return w.Last(uid).Condition }

// nominated returns the nominated node that the pod gets, nil if it does not change.
func (u Update) nominated() *string {
	if u.Nominating.Mode() != fwk.ModeOverride {
		return nil
	}
	return &u.Nominating.NominatedNodeName
}

// target implements latest.Target.
type target struct {
	client clientset.Interface
	pods   Pods
}

// Merge puts an Update on top of an earlier one.
func (target) Merge(earlier, next Update) Update {
	next.Condition = cmp.Or(next.Condition, earlier.Condition)
	if next.nominated() == nil {
		next.Nominating = earlier.Nominating
	}
	return next
}

// Write writes the values that the pod does not have already. last holds those that it got last.
func (t target) Write(ctx context.Context, _ types.UID, u, last Update) (*Update, error) {
	pod := t.pods.Newest(u.Pod)
	if pod == nil {
		return nil, nil
	}
	patch, err := patchFor(pod, last, u)
	if err == nil && patch == nil {
		return nil, nil
	}
	if err == nil {
		err = apply(ctx, t.client, pod, patch)
	}
	switch {
	case IsGone(err), IsBound(err), ctx.Err() != nil:
		return nil, nil
	case err != nil:
		t.pods.NotWritten(ctx, pod, err)
		u = u.unsure()
	}
	written := t.Merge(last, u)
	written.Pod = nil // not kept in memory
	return &written, nil
}

// unsure returns the values of a pod after an Update that may have been written or not. They differ
// from any value that can be written next.
func (u Update) unsure() (values Update) {
	if u.Condition != nil {
		values.Condition = &corev1.PodCondition{}
	}
	if u.nominated() != nil {
		// the name of no node
		values.Nominating = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "?"}
	}
	return values
}

// patchFor returns a strategic merge patch of the pod's status, which names the UID for the API
// server to compare. It is nil if the pod has the values already, according to the informers, and
// got no others since.
func patchFor(pod *corev1.Pod, last, u Update) ([]byte, error) {
	changed, status := false, map[string]any{}
	if u.Condition != nil {
		condition := ptr.To(*u.Condition)
		changed = podutil.UpdatePodCondition(&corev1.PodStatus{Conditions: slices.Clone(pod.Status.Conditions)},
			condition) ||
			last.Condition != nil && !SameCondition(last.Condition, condition)
		status["conditions"] = []*corev1.PodCondition{condition}
	}
	if node := u.nominated(); node != nil {
		before := last.nominated()
		changed = changed || *node != pod.Status.NominatedNodeName || before != nil && *before != *node
		status["nominatedNodeName"] = node
		if *node == "" {
			status["nominatedNodeName"] = nil // which removes it
		}
	}
	if !changed {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
}

// SameCondition reports whether two conditions of a type have the same status, reason and message.
func SameCondition(a, b *corev1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}
