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

// deferredPreFilter is what RunDeferredPreFilter needs.
type deferredPreFilter struct {
	framework *Framework
	pod       *corev1.Pod
}

// Clone implements fwk.StateData.
func (d *deferredPreFilter) Clone() fwk.StateData { return d }

// DeferPreFilter notes in a state that the PreFilter plugins have not run yet. They are known to
// succeed and to allow all nodes. Most pods whose refusals are known need no state, and PreFilter
// of InterPodAffinity and PodTopologySpread looks at all nodes.
func (f *Framework) DeferPreFilter(state fwk.CycleState, pod *corev1.Pod) {
	state.Write(deferredKey, &deferredPreFilter{framework: f, pod: pod})
}

// RunDeferredPreFilter runs PreFilter if it was deferred for this state. The error is that of a
// plugin, or means that PreFilter does not allow all nodes. A PostFilter plugin that implements
// DeferredPreFilterPlugin calls RunDeferredPreFilter before it reads the state;
// RunPostFilterPlugins calls it for the others. It must not be called concurrently for one state.
func RunDeferredPreFilter(ctx context.Context, state fwk.CycleState) error {
	data, _ := state.Read(deferredKey) // nil if it is not there
	deferred, ok := data.(*deferredPreFilter)
	if !ok {
		return nil
	}
	allowed, status, _ := deferred.framework.RunPreFilterPlugins(ctx, state, deferred.pod)
	if status.IsSuccess() && allowed.AllNodes() {
		return nil
	}
	state.Write(deferredKey, deferred)
	switch {
	case status.Code() == fwk.Error:
		return status.AsError()
	case !status.IsSuccess():
		return fmt.Errorf("PreFilter refuses a pod that it is known to accept: %s", status.Message())
	}
	return fmt.Errorf("PreFilter allows only %d nodes for a pod for which it is known to allow all",
		len(allowed.NodeNames))
}

// DeferredPreFilterPlugin is a PostFilter plugin that calls RunDeferredPreFilter before it reads
// the state.
type DeferredPreFilterPlugin interface {
	fwk.PostFilterPlugin
	RunsDeferredPreFilter()
}
