// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// readNominations looks up the nodes with nominated pods for which the pod must leave room. It
// reports whether the rows can be used even though they leave these pods out: it returns false if a
// nominated pod has required anti-affinity, because the tracker of InterPodAffinity does not count
// nominated pods.
func (d *decision) readNominations() bool {
	nodes, repelling := d.Plan.framework.NominatedNodes(d.Pod)
	d.nominated = nodes
	return !repelling
}

// beside is the answer of the filters for a node with its nominated pods added.
type beside struct {
	// number identifies these pods (decision.nominated). version is the version of the node.
	number, version uint64
	fits            bool
}

// besideBytes estimates the memory of a beside.
const besideBytes = 48

// leaveOutNominated removes the nodes on which the pod does not fit beside the nominated pods. As
// in kube-scheduler, the filters are run on nodes with nominated pods with these pods added, unless
// the answer is known.
func (d *decision) leaveOutNominated(ctx context.Context) error {
	snapshot, c, p := d.engine.snapshot, d.class, d.pass
	if len(d.nominated) == 0 || len(p.feasible) == 0 {
		return nil
	}
	if len(c.besides) > 2*len(d.nominated) {
		clear(c.besides)
	}
	nominated := &d.refresher.seen
	nominated.reset(snapshot.Slots())
	for name := range d.nominated {
		if slot, ok := snapshot.SlotOf(name); ok {
			nominated.add(slot)
		}
	}
	var state fwk.CycleState
	kept := p.feasible[:0]
	for _, slot := range p.feasible {
		fits := true
		if nominated.has(slot) {
			var err error
			if fits, err = d.fitsBeside(ctx, &state, slot); err != nil {
				return err
			}
		}
		if fits {
			kept = append(kept, slot)
		}
	}
	p.feasible = kept
	return nil
}

// fitsBeside reports whether the pod fits a node beside the pods that are nominated to it. state is
// the state that PreFilter leaves, nil until it is needed.
func (d *decision) fitsBeside(ctx context.Context, state *fwk.CycleState, slot cache.Slot) (bool, error) {
	snapshot, c := d.engine.snapshot, d.class
	now := beside{number: d.nominated[d.nodeName(slot)], version: snapshot.Version(slot)}
	known, ok := c.besides[slot]
	// The answers for pods with extended resources also depend on device classes.
	if ok && known.number == now.number && known.version == now.version && !c.local.extended {
		return known.fits, nil
	}
	plugins := d.Plan.nodeWise
	if *state == nil {
		prepared := schedframework.NewCycleState()
		if _, status, _ := plugins.RunPreFilterPlugins(ctx, prepared, d.Pod); !status.IsSuccess() {
			return false, statusError(status)
		}
		*state = prepared
	}
	status := plugins.RunFilterPluginsWithNominatedPods(ctx, *state, d.Pod, snapshot.Info(slot))
	if !status.IsSuccess() && !status.IsRejected() {
		return false, statusError(status)
	}
	now.fits = status.IsSuccess()
	if c.besides == nil {
		c.besides = map[cache.Slot]beside{}
	}
	c.besides[slot] = now
	return now.fits, nil
}
