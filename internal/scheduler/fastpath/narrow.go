// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// PreFilter of DynamicResources copies what is allocated in the cluster, and sorts all slices by
// node: it costs as much as there are devices. So it sees no devices at first, and is run again
// before Filter is run on some nodes (know), with the devices of these nodes, or with all if there
// are many.

// maxKnown bounds the nodes whose devices are collected one by one.
const maxKnown = 64

// narrow makes PreFilter see no devices until the returned function is called, if the pod needs
// some. The pods of a group share what DynamicResources remembers, and plugins of other kinds may
// look at devices, too.
func (d *decision) narrow() (widen func()) {
	p := d.Plan
	if p.opaque || p.deviceSource == nil || !d.delegated && len(d.Pod.Spec.ResourceClaims) == 0 ||
		d.State.GetPodGroupSchedulingCycle() != nil {
		return func() {}
	}
	widen, d.uncached.narrow = p.deviceSource.Narrow(nil)
	if !d.uncached.narrow {
		return func() {}
	}
	return widen
}

// know makes the state of DynamicResources know the devices of the nodes in these slots. The
// results of Filter on other nodes may not be in the state any more.
//
// state is u.state, or a copy of it for nodes that are only looked at.
func (u *uncached) know(ctx context.Context, state fwk.CycleState, slots []cache.Slot) error {
	switch {
	case !u.narrow:
		return nil
	case state != u.state:
		return u.see(ctx, state, u.names(slots))
	}
	if u.devices != nil {
		u.devices.allocated.reset(u.snapshot.Slots())
	}
	if len(slots) > maxKnown {
		return u.widen(ctx)
	}
	return u.see(ctx, u.answers.CycleState, u.names(slots))
}

// see makes a state of DynamicResources know the devices of these nodes, instead of those that it
// knew.
func (u *uncached) see(ctx context.Context, state fwk.CycleState, nodes []string) error {
	widen, ok := u.plan.deviceSource.Narrow(nodes)
	if !ok {
		return u.preFilterDevices(ctx, state)
	}
	defer widen()
	return u.preFilterDevices(ctx, state)
}

// widen makes the state of DynamicResources know all devices.
func (u *uncached) widen(ctx context.Context) error {
	if err := u.preFilterDevices(ctx, u.answers.CycleState); err != nil {
		return err
	}
	u.narrow = false
	u.answers.ForgetFilter(u.plan.devices)
	return nil
}

// preFilterDevices runs PreFilter of DynamicResources again.
func (u *uncached) preFilterDevices(ctx context.Context, state fwk.CycleState) error {
	again := &repeatedPreFilter{CycleState: state}
	_, status, _ := u.plan.dynamic.RunPreFilterPlugins(ctx, again, u.pod)
	switch {
	case !status.IsSuccess():
		return statusError(status)
	case again.skipped.Has(u.plan.devices):
		return fmt.Errorf("%s has no work any more for the pod", u.plan.devices)
	}
	return nil
}

// repeatedPreFilter is the state for a PreFilter that is run again: other plugins may run at the
// same time, so it does not change which of them are skipped.
type repeatedPreFilter struct {
	fwk.CycleState
	skipped sets.Set[string]
}

// SetSkipFilterPlugins implements fwk.CycleState.
func (r *repeatedPreFilter) SetSkipFilterPlugins(plugins sets.Set[string]) { r.skipped = plugins }

// GetSkipFilterPlugins implements fwk.CycleState.
func (r *repeatedPreFilter) GetSkipFilterPlugins() sets.Set[string] { return r.skipped }

// names returns the names of the nodes in these slots.
func (u *uncached) names(slots []cache.Slot) []string {
	names := make([]string, 0, len(slots))
	for _, slot := range slots {
		names = append(names, u.snapshot.Info(slot).Node().Name)
	}
	return names
}
