// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// nominatedElsewhere looks up where room is reserved for pods that this one has to let go first, and says whether the rows
// are of use all the same: they know nothing of these pods. A pod with required anti-affinity would have to be reckoned
// with by the twin of InterPodAffinity.
func (e *Engine) nominatedElsewhere(p Profile, pod *corev1.Pod) bool {
	nodes, repelling, known := p.Framework.NominatedNodes(pod)
	e.nominated = nodes
	return known && !repelling
}

// SameNominated says whether the nominated pods that count to a pod, that of the last decision, are still those of then.
func (e *Engine) SameNominated(f *framework.Framework, pod *corev1.Pod) bool {
	nodes, _, known := f.NominatedNodes(pod)
	return known && maps.Equal(nodes, e.nominated)
}

// minds says whether it matters to a class's pods which pods run on a node, apart from the room that these take. Their
// required affinity does not count: nominated pods can only be in its favour, and it has to be met without them, too.
func (c *class) minds() bool {
	return len(c.like.RequiredAntiAffinityTerms) > 0 || c.constraints != nil && c.constraints.Hard()
}

// leaveOutReserved takes those nodes out of the ones that filter has left which pods are nominated to, and where there is no
// room beside these. Such nodes are asked about as kube-scheduler does it, with the pods added.
func (e *Engine) leaveOutReserved(ctx context.Context, c *class, pod *corev1.Pod) error {
	if len(e.nominated) == 0 || len(e.feasible) == 0 {
		return nil
	}
	plugins := c.local.gen.nodeWise
	state := schedframework.NewCycleState()
	if _, status, _ := plugins.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return statusError(status)
	}
	e.beginMarks()
	for name := range e.nominated {
		if slot, ok := e.snapshot.SlotOf(name); ok {
			e.mark(slot)
		}
	}
	kept := e.feasible[:0]
	for _, slot := range e.feasible {
		if e.marks[slot] != e.round {
			kept = append(kept, slot)
			continue
		}
		switch status := plugins.RunFilterPluginsWithNominatedPods(ctx, state, pod, e.snapshot.Info(slot)); {
		case status.IsSuccess():
			kept = append(kept, slot)
		case !status.IsRejected():
			return statusError(status)
		}
	}
	e.feasible = kept
	return nil
}
