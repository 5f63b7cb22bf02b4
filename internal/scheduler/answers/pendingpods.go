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
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// PendingPods implements apiserving.Answers. The kind and its pods are those that were counted
// some seconds ago.
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
	nominated := map[types.UID]string{}
	for _, nomination := range a.Queue.Nominator().Dump() {
		nominated[nomination.Pod.UID] = nomination.Node
	}
	states := counted.pods[id]
	pods := make([]v1alpha1.PendingPod, 0, len(states))
	for i := range states {
		pods = append(pods, pendingPod(states[i].Pod, &states[i], nominated[states[i].Pod.UID]))
	}
	slices.SortFunc(pods, func(a, b v1alpha1.PendingPod) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), podkind.CompareNames(a.Name, b.Name))
	})
	kind := counted.list.Items[at]
	kind.Pending = pods[:min(limit, len(pods))]
	list.Kinds, list.Pods, list.Items = 1, kind.Pods, append(list.Items, kind)
	return list, nil
}

func pendingPod(pod *corev1.Pod, state *queue.PodState, nominated string) v1alpha1.PendingPod {
	return v1alpha1.PendingPod{Name: pod.Name, Since: pod.CreationTimestamp, Place: state.Place.String(),
		Attempts: int32(state.Attempts), NominatedNode: cmp.Or(nominated, pod.Status.NominatedNodeName)}
}
