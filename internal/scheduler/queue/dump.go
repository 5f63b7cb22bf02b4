// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// dumpBatch is the number of pods that Dump copies before it releases the lock for others.
const dumpBatch = 256

// Dump is Pods, place by place and the oldest first.
func (q *Queue) Dump() []PodState {
	states := q.Pods()
	slices.SortFunc(states, func(a, b PodState) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), a.Timestamp.Compare(b.Timestamp), byName(a.Pod, b.Pod))
	})
	return states
}

// Pods lists all pods in the queue, in no order. It holds the lock only for short times, however
// many pods there are, so that scheduling continues. In return the list
// does not show a single moment: a pod that arrives or moves during the call may be missing, or be
// listed in its former place. No pod is listed twice.
func (q *Queue) Pods() []PodState {
	q.mu.Lock()
	uids := slices.Collect(maps.Keys(q.pods))
	q.mu.Unlock()
	states := make([]PodState, 0, len(uids))
	for batch := range slices.Chunk(uids, dumpBatch) {
		q.mu.Lock()
		for _, uid := range batch {
			if e := q.pods[uid]; e != nil {
				states = append(states, e.state())
			}
		}
		q.mu.Unlock()
	}
	return states
}

// Nomination is a pod and its nominated node.
type Nomination struct {
	Pod  *corev1.Pod
	Node string
}

// Dump lists all nominations, sorted by the pods' names.
func (n *Nominator) Dump() []Nomination {
	n.mu.RLock()
	nominations := make([]Nomination, 0, len(n.byPod))
	for _, nm := range n.byPod {
		nominations = append(nominations, Nomination{Pod: nm.info.Pod, Node: nm.node})
	}
	n.mu.RUnlock()
	slices.SortFunc(nominations, func(a, b Nomination) int { return byName(a.Pod, b.Pod) })
	return nominations
}

// byName orders pods by namespace, name and UID.
func byName(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
