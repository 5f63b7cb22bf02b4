// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// victimsOf returns the victims of a lower priority that are ending on the nominated node of a pod.
// Others that end there are not evicted for it: its group may only keep room there.
func victimsOf(k *fork.Fork, pod *corev1.Pod, nominated string) []v1alpha1.PodReference {
	if nominated == "" {
		return nil
	}
	snapshot, err := k.Snapshot()
	if err != nil {
		return nil // the decision fails for it, too
	}
	node, err := snapshot.NodeInfos().Get(nominated)
	if err != nil {
		return nil // the node is gone
	}
	var victims []v1alpha1.PodReference
	for _, info := range node.GetPods() {
		other := info.GetPod()
		if preemption.IsVictim(other) && corev1helpers.PodPriority(other) < corev1helpers.PodPriority(pod) {
			victims = append(victims, referenceTo(other))
		}
	}
	slices.SortFunc(victims, func(a, b v1alpha1.PodReference) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return victims
}

// messageOfVictims is for pods that have not ended. Pods that preemption has not deleted yet are
// not among the victims.
func messageOfVictims(victims []v1alpha1.PodReference) string {
	switch len(victims) {
	case 0:
		return "The pods that are preempted for this pod have not ended."
	case 1:
		return "A pod that is preempted for this pod has not ended."
	}
	return fmt.Sprintf("%d pods that are preempted for this pod have not ended.", len(victims))
}

// referenceTo names a pod.
func referenceTo(pod *corev1.Pod) v1alpha1.PodReference {
	r := v1alpha1.PodReference{Namespace: pod.Namespace, Name: pod.Name}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		r.Controller = owner.Kind + "/" + owner.Name
	}
	if pod.DeletionTimestamp != nil {
		r.TerminatingSince, r.Finalizers = requested(pod), pod.Finalizers
	}
	return r
}

// requested returns when the deletion of a pod was requested: its time of deletion is when its
// grace period ends.
func requested(pod *corev1.Pod) metav1.Time {
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return metav1.NewTime(pod.DeletionTimestamp.Add(-grace))
}
