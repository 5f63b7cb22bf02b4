// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"
)

// change is a pending change of a pod's status. nil fields do not change.
type change struct {
	pod       *corev1.Pod
	condition *corev1.PodCondition
	nominated *string
}

// merge returns the change with an Update on top. c may be nil.
func (c *change) merge(u Update) *change {
	merged := &change{pod: u.Pod, condition: u.Condition}
	if u.Nominating.Mode() == fwk.ModeOverride {
		merged.nominated = &u.Nominating.NominatedNodeName
	}
	if c != nil {
		merged.condition = cmp.Or(merged.condition, c.condition)
		merged.nominated = cmp.Or(merged.nominated, c.nominated)
	}
	return merged
}

// written holds the values that were last written to a pod. nil fields were never written.
type written struct {
	condition *corev1.PodCondition
	nominated *string
}

// with returns the values that were last written, once a change was written, too.
func (w written) with(c *change) written {
	return written{condition: cmp.Or(c.condition, w.condition), nominated: cmp.Or(c.nominated, w.nominated)}
}

// unsure returns the last written values after a failed change, which may have been written or not.
// Its values differ from any value that can be written next.
func (w written) unsure(c *change) written {
	if c.condition != nil {
		w.condition = &corev1.PodCondition{}
	}
	if c.nominated != nil {
		w.nominated = ptr.To("?") // the name of no node
	}
	return w
}

// patchFor returns the patch that makes a change. It is nil if the pod has the change already,
// according to the informers, and nothing else was written since.
func patchFor(pod *corev1.Pod, last written, c *change) ([]byte, error) {
	changed := false
	var condition *corev1.PodCondition
	if c.condition != nil {
		condition = ptr.To(*c.condition)
		changed = podutil.UpdatePodCondition(&corev1.PodStatus{Conditions: slices.Clone(pod.Status.Conditions)}, condition)
		changed = changed || last.condition != nil && !sameCondition(last.condition, condition)
	}
	if c.nominated != nil {
		changed = changed || *c.nominated != pod.Status.NominatedNodeName || last.nominated != nil && *last.nominated != *c.nominated
	}
	if !changed {
		return nil, nil
	}
	return json.Marshal(patchBody(pod.UID, condition, c.nominated))
}

// sameCondition reports whether two conditions of a type have the same status, reason and message.
func sameCondition(a, b *corev1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// patchBody returns a strategic merge patch of the status of the pod with this UID, which the API
// server compares.
func patchBody(uid types.UID, condition *corev1.PodCondition, nominated *string) map[string]any {
	status := map[string]any{}
	if condition != nil {
		status["conditions"] = []*corev1.PodCondition{condition}
	}
	switch {
	case nominated == nil:
	case *nominated == "":
		status["nominatedNodeName"] = nil // which removes it
	default:
		status["nominatedNodeName"] = *nominated
	}
	return map[string]any{"metadata": map[string]any{"uid": uid}, "status": status}
}
