// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// preemptions are what the world knows of pods that evict others.
type preemptions struct {
	// deleted are the pods that actors have deleted.
	deleted map[types.UID]bool
	// past are the preemptors that wait no longer.
	past []preemptor
}

// preemptor is a pod that may have evicted others, until a time.
type preemptor struct {
	pod   *corev1.Pod
	until time.Time
}

// lateness is how much later livesched may act on what it has seen: requests may be on their way
// for 20 seconds, twice, and their answers for a minute.
const lateness = 2 * time.Minute

// checkEviction checks, once a pod has been deleted or begun to end, that an actor did it, or that
// a more important pod wanted its room.
func (w *World) checkEviction(before, after *corev1.Pod) {
	p := &w.cluster.preemptions
	if before.Spec.NodeName == "" && (after == nil || after.Spec.NodeName != "") {
		p.past = append(p.past, preemptor{before, time.Now().Add(lateness)})
	}
	goes := before.DeletionTimestamp == nil && (after == nil || after.DeletionTimestamp != nil)
	if !goes || time.Now().Before(w.excused) || p.deleted[before.UID] {
		return
	}
	w.counts["evicted"]++
	p.past = slices.DeleteFunc(p.past, func(one preemptor) bool { return one.until.Before(time.Now()) })
	outranks := func(pod *corev1.Pod) bool {
		return corev1helpers.PodPriority(pod) > corev1helpers.PodPriority(before) &&
			(pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever)
	}
	if slices.ContainsFunc(p.past, func(one preemptor) bool { return outranks(one.pod) }) {
		return
	}
	for _, pod := range w.cluster.pods {
		if pod.Spec.NodeName == "" && outranks(pod) {
			return
		}
	}
	w.fail("pod %s was evicted, and no pending pod is more important", before.Name)
}
