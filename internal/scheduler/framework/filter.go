// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// RunFilterPlugins runs the Filter plugins that PreFilter did not skip, in order, and returns the
// first refusal or error with the plugin's name. nil means that the pod fits on the node.
//
// With Config.CheckAllFilters, a refusal does not end the run, and all refusals are returned as
// one; an error still ends it and is returned alone.
func (f *Framework) RunFilterPlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo,
) *fwk.Status {
	logger := newPointLogger(ctx, schedmetrics.Filter)
	skipped := state.GetSkipFilterPlugins()
	var refused *fwk.Status
	for i := range f.filter {
		pl := &f.filter[i]
		if skipped.Has(pl.name) {
			continue
		}
		var status *fwk.Status
		if answers := answersOf(state, pl.name); answers == nil {
			status = f.runFilter(logger.context(ctx, pl.name), pl, state, pod, nodeInfo)
		} else {
			status = answers.toFilter(ctx, filterQuestion{pl.name, nodeInfo}, func() *fwk.Status {
				return f.runFilter(logger.context(ctx, pl.name), pl, state, pod, nodeInfo)
			})
		}
		if status.IsSuccess() {
			continue
		}
		if !status.IsRejected() {
			return failed(schedmetrics.Filter, pl.name, status).WithPlugin(pl.name)
		}
		if status.Plugin() != pl.name { // otherwise others may read it at the same time
			status = status.WithPlugin(pl.name)
		}
		if !f.cfg.CheckAllFilters {
			return status
		}
		refused = bothRefused(refused, status)
	}
	return refused
}

func (f *Framework) runFilter(
	ctx context.Context, pl *instrumented[fwk.FilterPlugin], state fwk.CycleState, pod *corev1.Pod,
	nodeInfo fwk.NodeInfo,
) *fwk.Status {
	pl.evaluations.Inc()
	return f.call(ctx, state, schedmetrics.Filter, pl.name, func() *fwk.Status {
		return pl.plugin.Filter(ctx, state, pod, nodeInfo)
	})
}

// bothRefused combines two refusals: it has the reasons of both, and the code and plugin of the
// first, or of the second if only that is UnschedulableAndUnresolvable. The hints of either plugin
// suffice, since the pod must satisfy both. first may be nil. The statuses belong to the plugins
// and are not modified.
func bothRefused(first, second *fwk.Status) *fwk.Status {
	if first == nil {
		return second
	}
	more := first
	if first.Code() != fwk.UnschedulableAndUnresolvable && second.Code() == fwk.UnschedulableAndUnresolvable {
		more = second
	}
	return fwk.NewStatus(more.Code(), slices.Concat(first.Reasons(), second.Reasons())...).WithPlugin(more.Plugin())
}

// RunFilterPluginsWithNominatedPods runs the Filter plugins and takes the pods nominated for the
// node into account. If there are any of the same or a higher priority, the pod must fit twice:
// with them on the node, since it must not take their room, and without them, since they may never
// arrive and the pod may fit only because of them (inter-pod affinity).
//
// Preemption calls it, too, with a state and a node from which the victims were removed.
func (f *Framework) RunFilterPluginsWithNominatedPods(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo,
) *fwk.Status {
	withNominated, withState, status := f.addNominatedPods(ctx, state, pod, nodeInfo)
	if !status.IsSuccess() {
		return status
	}
	if withNominated != nil {
		if status := f.RunFilterPlugins(ctx, withState, pod, withNominated); !status.IsSuccess() {
			return status
		}
	}
	return f.RunFilterPlugins(ctx, state, pod, nodeInfo)
}

// addNominatedPods returns copies of node and state with the pods added that are nominated for the
// node and have the priority of pod or a higher one, nil if there are none.
func (f *Framework) addNominatedPods(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo,
) (fwk.NodeInfo, fwk.CycleState, *fwk.Status) {
	var withNominated fwk.NodeInfo
	var withState fwk.CycleState
	for _, nominated := range f.NominatedPods(pod, nodeInfo.Node().Name) {
		if withNominated == nil {
			var status *fwk.Status
			if withState, status = cloneState(ctx, state); !status.IsSuccess() {
				return nil, nil, status
			}
			withNominated = nodeInfo.Snapshot()
		}
		withNominated.AddPodInfo(nominated)
		status := f.RunPreFilterExtensionAddPod(ctx, withState, pod, nominated, withNominated)
		if !status.IsSuccess() {
			return nil, nil, status
		}
	}
	return withNominated, withState, nil
}

// cloneState clones a state, which calls Clone on the plugins' data.
func cloneState(ctx context.Context, state fwk.CycleState) (clone fwk.CycleState, status *fwk.Status) {
	defer func() {
		if value := recover(); value != nil {
			clone, status = nil, fwk.AsStatus(newPanicError(ctx, "StateData.Clone", "", value))
		}
	}()
	return state.Clone(), nil
}
