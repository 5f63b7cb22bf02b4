// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package groupcondition writes into the status of Kubernetes' PodGroups whether they are
// scheduled, as kube-scheduler does.
package groupcondition

import (
	"context"
	"encoding/json"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/livesched/livesched/internal/scheduler/latest"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/truncate"
)

// maxMessage bounds the message of a condition, in bytes. The API server accepts 32 KiB.
const maxMessage = 8 << 10

// config writes four conditions at a time, and gives up after a few seconds. A condition is
// compared with the one that informers have once they should have it: etcd may have been restored
// from a backup since.
var config = latest.Config{
	What: "conditions of PodGroups", Workers: 4, Attempts: 5, FirstRetry: 200 * time.Millisecond,
	LastRetry: 10 * time.Second, Recent: 5 * time.Second,
}

// reasonScheduled is the reason of the condition of a group that is scheduled. The API has no
// constant for it.
const reasonScheduled = "Scheduled"

// Writer writes the condition PodGroupInitiallyScheduled of Kubernetes' PodGroups, which is
// PodGroupScheduled in v1alpha2, in the background: see latest.Writer. The status of a group that
// has been scheduled stays True, as kube-scheduler leaves it. If the group has lost pods since, the
// message has what it lacks.
//
// Its methods may be called from any goroutine. Those that record something do nothing if the
// Writer is nil.
type Writer struct {
	*latest.Writer[group, metav1.Condition]
	groups podgroup.KubernetesInformers
}

// group identifies a PodGroup, and not its successor of the same name.
type group struct {
	namespace, name string
	uid             types.UID
}

// NewWriter returns a Writer that does nothing until Start. client is of any API group.
func NewWriter(client rest.Interface, groups podgroup.KubernetesInformers) *Writer {
	return &Writer{latest.New(config, target{client: client, groups: groups}), groups}
}

// Scheduled records that enough pods of a group have a node, later. It never waits. It ignores
// groups of another source than Kubernetes, as the other methods do.
func (w *Writer) Scheduled(key podgroup.Key) {
	w.set(key, metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonScheduled})
}

// Unschedulable records that a group fits nowhere, and why.
func (w *Writer) Unschedulable(key podgroup.Key, message string) {
	w.set(key, metav1.Condition{Status: metav1.ConditionFalse, Reason: schedulingv1beta1.PodGroupReasonUnschedulable,
		Message: message})
}

// Incomplete records that a group lacks pods with a node, and why, although some may have one.
func (w *Writer) Incomplete(key podgroup.Key, message string) {
	w.set(key, metav1.Condition{Message: message})
}

// Failed records that a group could not be scheduled because of an error.
func (w *Writer) Failed(key podgroup.Key, err error) {
	w.set(key, metav1.Condition{Status: metav1.ConditionFalse, Reason: schedulingv1beta1.PodGroupReasonSchedulerError,
		Message: err.Error()})
}

func (w *Writer) set(key podgroup.Key, condition metav1.Condition) {
	if w == nil || key.Source != podgroup.Kubernetes {
		return
	}
	found, api := w.groups.Get(key.Namespace, key.Name)
	if found == nil {
		return // it is gone
	}
	condition.Type = api.Condition
	condition.ObservedGeneration = found.GetGeneration()
	condition.Message = truncate.ToBytes(condition.Message, maxMessage)
	w.Set(group{key.Namespace, key.Name, found.GetUID()}, condition)
}

// target implements latest.Target.
type target struct {
	client rest.Interface
	groups podgroup.KubernetesInformers
}

// Merge returns the condition that follows both. That of an incomplete group depends on what the
// group has when it is written.
func (target) Merge(earlier, next metav1.Condition) metav1.Condition {
	if next.Status == "" && earlier.Status != metav1.ConditionTrue {
		return next
	}
	merged, _ := follow(&earlier, next)
	return merged
}

// follow returns the condition that a group gets in place of the current one, nil if it has none.
func follow(current *metav1.Condition, next metav1.Condition) (_ metav1.Condition, changed bool) {
	scheduled := current != nil && current.Status == metav1.ConditionTrue
	switch {
	case next.Status == "" && scheduled:
		next.Status, next.Reason = metav1.ConditionTrue, reasonScheduled
	case next.Status == "":
		next.Status, next.Reason = metav1.ConditionFalse, schedulingv1beta1.PodGroupReasonUnschedulable
	case next.Status == metav1.ConditionFalse && scheduled:
		return *current, false
	}
	return next, current == nil || current.Status != next.Status || current.Reason != next.Reason ||
		current.Message != next.Message || current.ObservedGeneration != next.ObservedGeneration
}

// Write writes a condition, unless the group has it already or was replaced by another one.
func (t target) Write(ctx context.Context, g group, condition, last metav1.Condition) (*metav1.Condition, error) {
	found, api := t.groups.Get(g.namespace, g.name)
	if found == nil || found.GetUID() != g.uid {
		return nil, nil
	}
	condition.Type = api.Condition // the API server may have been upgraded
	current := &last
	if last.Type == "" {
		known, err := podgroup.ReadKubernetes(found)
		if err != nil {
			return nil, err
		}
		current = meta.FindStatusCondition(known.Status.Conditions, api.Condition)
	}
	condition, changed := follow(current, condition)
	if !changed {
		return nil, nil
	}
	condition.LastTransitionTime = metav1.Now()
	if current != nil && current.Status == condition.Status {
		condition.LastTransitionTime = current.LastTransitionTime
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": g.uid}, // the API server compares it
		"status":   map[string]any{"conditions": []metav1.Condition{condition}},
	})
	if err != nil {
		return nil, err
	}
	err = t.client.Patch(types.StrategicMergePatchType).
		AbsPath("/apis", api.Group, api.Version, "namespaces", g.namespace, api.Resource, g.name, "status").
		Body(patch).Do(ctx).Error()
	if podstatus.IsGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &condition, nil
}
