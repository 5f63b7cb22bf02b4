// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/podkind"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// PendingPods implements apiserving.Answers. The kind is one that was counted some seconds ago, and
// its pods and their number are those of now.
func (a *Answers) PendingPods(namespace, id string, limit int) (*v1alpha1.PendingKindList, error) {
	if !a.Leading.Load() {
		return nil, errFollows()
	}
	counted := a.countKinds()
	list := &v1alpha1.PendingKindList{Items: []v1alpha1.PendingKind{}, Time: counted.list.Time}
	at := slices.IndexFunc(counted.list.Items, func(k v1alpha1.PendingKind) bool {
		return k.ID == id && k.Namespace == namespace
	})
	if at < 0 {
		return list, nil
	}
	kind, pods := a.podsOf(counted, &counted.list.Items[at])
	if kind.Pods == 0 {
		return list, nil
	}
	slices.SortFunc(pods, func(a, b v1alpha1.PendingPod) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), podkind.CompareNames(a.Name, b.Name))
	})
	kind.Pending = slices.Clone(pods[:min(limit, len(pods))])
	list.Kinds, list.Pods, list.Items = 1, kind.Pods, append(list.Items, *kind)
	return list, nil
}

// podsOf returns a kind as it is now, and its pods.
func (a *Answers) podsOf(counted *countedKinds,
	before *v1alpha1.PendingKind) (*v1alpha1.PendingKind, []v1alpha1.PendingPod) {
	nominated := map[types.UID]string{}
	for _, nomination := range a.Queue.Nominator().Dump() {
		nominated[nomination.Pod.UID] = nomination.Node
	}
	kind := *before
	kind.Pods, kind.Active, kind.Backoff, kind.Unschedulable, kind.Gated, kind.Attempts = 0, 0, 0, 0, 0, 0
	of := counted.byID[kind.ID]
	var pods []v1alpha1.PendingPod
	for _, state := range a.Queue.Pods() {
		pod := state.Pod
		if pod.Namespace != kind.Namespace || podgroup.KeyOf(pod).Name != of.group || counted.keyOf(pod).key != of.key {
			continue
		}
		if kind.Pods == 0 {
			kind.Since = pod.CreationTimestamp
		}
		count(&kind, &state)
		pods = append(pods, pendingPod(pod, &state, nominated[pod.UID]))
	}
	return &kind, pods
}

func pendingPod(pod *corev1.Pod, state *queue.PodState, nominated string) v1alpha1.PendingPod {
	return v1alpha1.PendingPod{Name: pod.Name, Since: pod.CreationTimestamp, Place: state.Place.String(),
		Attempts: int32(state.Attempts), NominatedNode: cmp.Or(nominated, pod.Status.NominatedNodeName)}
}
