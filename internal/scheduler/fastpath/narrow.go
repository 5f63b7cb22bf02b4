// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// PreFilter of DynamicResources copies what is allocated in the cluster, and sorts all slices by
// node: it costs as much as there are devices. A lateSearch asks few nodes. So PreFilter sees no
// devices at first, and is run again before each of the first batches, with the devices of the
// nodes of the batch. Whoever runs Filter on other nodes must call widen before.

// narrow makes PreFilter see no devices, if the decision may become a lateSearch, until the
// returned function is called.
func (d *decision) narrow(c *class) (widen func()) {
	p := d.Plan
	if d.Draw == nil || p.opaque || p.deviceSource == nil || !d.delegated && len(d.Pod.Spec.ResourceClaims) == 0 ||
		d.State.GetPodGroupSchedulingCycle() != nil || !c.plain() || p.scoresDevices(d.Pod) {
		return func() {}
	}
	widen, d.uncached.narrow = p.deviceSource.Narrow(nil)
	if !d.uncached.narrow {
		return func() {}
	}
	return widen
}

// see makes the state of DynamicResources know the devices of these nodes, instead of those that it
// knew. The results of Filter on other nodes are not in the state any more.
func (u *uncached) see(ctx context.Context, state fwk.CycleState, nodes []string) error {
	widen, ok := u.plan.deviceSource.Narrow(nodes)
	if !ok {
		return u.preFilterDevices(ctx, state)
	}
	defer widen()
	return u.preFilterDevices(ctx, state)
}

// widen makes the state of DynamicResources know all devices, if it does not.
func (u *uncached) widen(ctx context.Context) error {
	if !u.narrow {
		return nil
	}
	if err := u.preFilterDevices(ctx, u.answers.CycleState); err != nil {
		return err
	}
	u.narrow = false
	u.answers.ForgetFilter(u.plan.devices)
	return nil
}

// preFilterDevices runs PreFilter of DynamicResources again.
func (u *uncached) preFilterDevices(ctx context.Context, state fwk.CycleState) error {
	skipped := state.GetSkipFilterPlugins()
	_, status, _ := u.plan.dynamic.RunPreFilterPlugins(ctx, state, u.pod)
	skips := state.GetSkipFilterPlugins().Has(u.plan.devices)
	state.SetSkipFilterPlugins(skipped)
	switch {
	case !status.IsSuccess():
		return statusError(status)
	case skips:
		return fmt.Errorf("%s has no work any more for the pod", u.plan.devices)
	}
	return nil
}

// names returns the names of the nodes in these slots.
func (u *uncached) names(slots []cache.Slot) []string {
	names := make([]string, 0, len(slots))
	for _, slot := range slots {
		names = append(names, u.snapshot.Info(slot).Node().Name)
	}
	return names
}
