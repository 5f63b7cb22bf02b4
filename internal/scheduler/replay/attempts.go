// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
)

// attempt is the decisions for a node of an attempt to place a group that failed. Their pods stayed
// on their nodes until its last decision, and those after them were decided with them there.
type attempt struct {
	decisions []*capture.Decision
	// standing means that the snapshot was taken before the pods were taken off their nodes.
	standing bool
}

// failedAttempts returns the attempts by the index of the decision after which the pods were taken
// off their nodes. The scheduling loop does nothing else between the decisions of an attempt, so
// that it ends with as many changes as there are such pods. It cannot be told apart from others if
// something else changed at this moment; then it is missing.
func failedAttempts(s *capture.Snapshot) map[int]attempt {
	attempts := map[int]attempt{}
	var open []*capture.Decision
	for i := range s.Decisions {
		d, next := &s.Decisions[i], s.Header.Changes
		if i+1 < len(s.Decisions) {
			next = s.Decisions[i+1].Changes
		}
		if d.Node != "" && d.Result == decisionlog.Unschedulable.String() {
			open = append(open, d)
		}
		switch others := int64(next-d.Changes) - ownChanges(d, next); {
		case others != 0 && others == int64(len(open)):
			attempts[i] = attempt{decisions: open}
			open = nil
		case others != 0:
			open = nil
		case i == len(s.Decisions)-1 && len(open) > 0:
			attempts[i] = attempt{decisions: open, standing: true}
		}
	}
	return attempts
}

// ownChanges returns how many changes a decision made before the next one: it assumed the pod, and
// forgot it at once if Reserve failed.
func ownChanges(d *capture.Decision, next uint64) int64 {
	switch {
	case d.Node == "":
		return 0
	case d.Result == decisionlog.BindFailed.String() && next-d.Changes > 1:
		return 2
	}
	return 1
}

// restore returns the pods of the attempt that failed after the decision with an index, which must
// be put on their nodes again. It returns nothing if one of them is gone, or is on a node that it
// has not left since.
func (p *past) restore(after int) (pods []*corev1.Pod) {
	a := p.attempts[after]
	for _, d := range a.decisions {
		pod, placed := p.pods[d.Pod], p.placed[d.Pod]
		if pod == nil || (placed != nil) != a.standing || placed != nil && placed.Spec.NodeName != d.Node {
			return nil
		}
		if !a.standing {
			pod = unbound(pod)
			pod.Spec.NodeName = d.Node
			pods = append(pods, pod)
		}
	}
	for _, pod := range pods {
		p.placed[pod.UID] = pod
		p.after++
	}
	for _, d := range a.decisions {
		p.inVain.Insert(d.Number)
	}
	return pods
}
