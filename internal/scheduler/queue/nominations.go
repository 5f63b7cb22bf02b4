// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// This file tells readers which nominations have changed.

// maxNominationLog is the number of changes that a reader may be behind. A reader that is further
// behind reads all nominations.
const maxNominationLog = 2048

// Nominations implements framework.Nominator. It takes no lock while nothing is nominated.
func (n *Nominator) Nominations(pod *corev1.Pod, since uint64) framework.NominationChanges {
	if n.size.Load() == 0 {
		return framework.NominationChanges{All: true}
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	priority := corev1helpers.PodPriority(pod)
	changes := framework.NominationChanges{End: n.log.End()}
	if nodes, known := n.log.Since(since); !known {
		changes.All = true
		for node := range n.byNode {
			if number := n.numberLocked(node, priority, nil); number != 0 {
				changes.Nodes = append(changes.Nodes, framework.NominatedNode{Name: node, Number: number})
			}
		}
	} else {
		for _, node := range nodes {
			number := n.numberLocked(node, priority, nil)
			changes.Nodes = append(changes.Nodes, framework.NominatedNode{Name: node, Number: number})
		}
	}
	if own := n.byPod[pod.UID]; own != nil {
		changes.Own = framework.NominatedNode{Name: own.node, Number: n.numberLocked(own.node, priority, own)}
	}
	return changes
}

// numberLocked returns a number for the pods that are nominated to a node, have at least this
// priority, and are not the one of the pod itself (nil: it has none). The number is 0 if there are
// none, and never the same for two different states.
func (n *Nominator) numberLocked(node string, priority int32, itself *nomination) uint64 {
	// The number of pods that are important enough and the position of the pod itself determine
	// which pods of the list count.
	important, self := 0, 0
	for i, nm := range n.byNode[node] {
		switch {
		case nm == itself:
			self = i + 1
		case corev1helpers.PodPriority(nm.info.Pod) >= priority:
			important++
		}
	}
	if important == 0 {
		return 0
	}
	return n.changed[node]<<32 | uint64(important)<<16 | uint64(self)
}
