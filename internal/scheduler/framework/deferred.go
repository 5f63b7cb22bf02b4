// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

const deferredKey fwk.StateKey = "livesched/DeferredPreFilter"

// deferredPreFilter is PreFilter that has not run yet.
type deferredPreFilter struct {
	run func(context.Context, fwk.CycleState) error
	// of is the name of the plugin that it is of, whose PostFilter does not need it. "": it is of
	// all plugins.
	of string
}

// Clone implements fwk.StateData.
func (d *deferredPreFilter) Clone() fwk.StateData { return d }

// DeferPreFilter notes in a state that the PreFilter plugins have not run yet. They are known to
// succeed and to allow all nodes. Most pods whose refusals are known need no state, and PreFilter
// of InterPodAffinity and PodTopologySpread looks at all nodes.
func (f *Framework) DeferPreFilter(state fwk.CycleState, pod *corev1.Pod) {
	state.Write(deferredKey, &deferredPreFilter{run: func(ctx context.Context, state fwk.CycleState) error {
		allowed, status, _ := f.RunPreFilterPlugins(ctx, state, pod)
		switch {
		case status.Code() == fwk.Error:
			return status.AsError()
		case !status.IsSuccess():
			return fmt.Errorf("PreFilter refuses a pod that it is known to accept: %s", status.Message())
		case !allowed.AllNodes():
			return fmt.Errorf("PreFilter allows only %d nodes for a pod for which it is known to allow all",
				len(allowed.NodeNames))
		}
		return nil
	}})
}

// DeferPreFilterOf notes in a state that PreFilter of one plugin has to run again before its Filter
// does.
func DeferPreFilterOf(plugin string, state fwk.CycleState, run func(context.Context, fwk.CycleState) error) {
	state.Write(deferredKey, &deferredPreFilter{run: run, of: plugin})
}

// RunDeferredPreFilter runs PreFilter if it was deferred for this state. The error is that of a
// plugin, or means that PreFilter does not allow all nodes. A PostFilter plugin that implements
// DeferredPreFilterPlugin calls RunDeferredPreFilter before it reads the state;
// RunPostFilterPlugins calls it for the others. It must not be called concurrently for one state.
func RunDeferredPreFilter(ctx context.Context, state fwk.CycleState) error {
	deferred := deferredIn(state)
	if deferred == nil {
		return nil
	}
	state.Delete(deferredKey)
	err := deferred.run(ctx, state)
	if err != nil {
		state.Write(deferredKey, deferred)
	}
	return err
}

// deferredIn returns PreFilter that was deferred for a state, nil if it was not.
func deferredIn(state fwk.CycleState) *deferredPreFilter {
	data, _ := state.Read(deferredKey) // nil if it is not there
	deferred, _ := data.(*deferredPreFilter)
	return deferred
}

// HasDeferredPreFilter reports whether RunDeferredPreFilter has something to run.
func HasDeferredPreFilter(state fwk.CycleState) bool { return deferredIn(state) != nil }

// DeferredPreFilterPlugin is a PostFilter plugin that calls RunDeferredPreFilter before it reads
// the state.
type DeferredPreFilterPlugin interface {
	fwk.PostFilterPlugin
	RunsDeferredPreFilter()
}

// needsPreFilter reports whether a PostFilter plugin reads what a deferred PreFilter would write.
func needsPreFilter(pl fwk.PostFilterPlugin, state fwk.CycleState) bool {
	deferred := deferredIn(state)
	if deferred == nil || deferred.of == pl.Name() {
		return false
	}
	_, own := pl.(DeferredPreFilterPlugin)
	return !own
}
