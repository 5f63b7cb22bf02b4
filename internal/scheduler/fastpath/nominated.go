// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// nominatedElsewhere looks up where room is reserved for pods that this one has to let go first,
// and reports whether the rows are of use all the same: they know nothing of these pods. A pod with
// required anti-affinity would have to be reckoned with by the twin of InterPodAffinity.
func (e *Engine) nominatedElsewhere(f *framework.Framework, pod *corev1.Pod) bool {
	nodes, repelling := f.NominatedNodes(pod)
	e.nominated = nodes
	return !repelling
}

// SameNominated says whether the nominated pods that count to a pod, that of the last decision, are
// still those of then.
func (e *Engine) SameNominated(f *framework.Framework, pod *corev1.Pod) bool {
	nodes, _ := f.NominatedNodes(pod)
	return maps.Equal(nodes, e.nominated)
}

// minds says whether it matters to a class's pods which pods run on a node, apart from the room
// that these take. Their required affinity does not count: nominated pods can only be in its
// favour, and it has to be met without them, too.
func (c *class) minds() bool {
	return len(c.like.RequiredAntiAffinityTerms) > 0 || c.constraints != nil && c.constraints.Hard()
}

// beside is what the filters have said of a node beside the pods that are nominated to it.
type beside struct {
	// number is that of these pods (Engine.nominated), version the node's then.
	number, version uint64
	fits            bool
}

// besideBytes is about what one takes.
const besideBytes = 48

// leaveOutReserved takes those nodes out of the ones that filter has left which pods are nominated
// to, and where there is no room beside these. Such nodes are asked about as kube-scheduler does
// it, with the pods added, unless that is known.
func (e *Engine) leaveOutReserved(ctx context.Context, c *class, pod *corev1.Pod) error {
	if len(e.nominated) == 0 || len(e.feasible) == 0 {
		return nil
	}
	if len(c.beside) > 2*len(e.nominated) {
		clear(c.beside)
	}
	e.beginMarks()
	for name := range e.nominated {
		if slot, ok := e.snapshot.SlotOf(name); ok {
			e.mark(slot)
		}
	}
	var state fwk.CycleState
	kept := e.feasible[:0]
	for _, slot := range e.feasible {
		fits := true
		if e.marks[slot] == e.round {
			var err error
			if fits, err = e.fitsBeside(ctx, c, &state, pod, slot); err != nil {
				return err
			}
		}
		if fits {
			kept = append(kept, slot)
		}
	}
	e.feasible = kept
	return nil
}

// fitsBeside says whether a pod fits a node beside those that are nominated to it. state is what
// PreFilter has left, nil as long as nobody needed it.
func (e *Engine) fitsBeside(ctx context.Context, c *class, state *fwk.CycleState, pod *corev1.Pod, slot cache.Slot) (bool, error) {
	now := beside{number: e.nominated[e.NodeName(slot)], version: e.snapshot.Version(slot)}
	known, ok := c.beside[slot]
	if ok && known.number == now.number && known.version == now.version && !c.local.extended { // that depends on device classes, too
		return known.fits, nil
	}
	plugins := c.local.gen.nodeWise
	if *state == nil {
		prepared := schedframework.NewCycleState()
		if _, status, _ := plugins.RunPreFilterPlugins(ctx, prepared, pod); !status.IsSuccess() {
			return false, statusError(status)
		}
		*state = prepared
	}
	status := plugins.RunFilterPluginsWithNominatedPods(ctx, *state, pod, e.snapshot.Info(slot))
	if !status.IsSuccess() && !status.IsRejected() {
		return false, statusError(status)
	}
	now.fits = status.IsSuccess()
	if c.beside == nil {
		c.beside = map[cache.Slot]beside{}
	}
	c.beside[slot] = now
	return now.fits, nil
}
