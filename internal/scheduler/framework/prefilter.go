// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// RunPreFilterPlugins runs the PreFilter plugins in order.
//
// The result holds the nodes that are left; nil means all nodes. If a plugin skips, its Filter and
// its PreFilter extensions do not run for this state. The status is
//
//   - nil if the pod may continue;
//   - UnschedulableAndUnresolvable from the first plugin that returns it, or if no node is in the
//     results of all plugins; nothing runs after it;
//   - Unschedulable if a plugin returns it: the others still run, since preemption needs their
//     state;
//   - Error otherwise.
//
// The set holds the names of the plugins whose results exclude nodes; it is never nil if the status
// is success.
func (f *Framework) RunPreFilterPlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
) (result *fwk.PreFilterResult, status *fwk.Status, restricting sets.Set[string]) {
	defer f.observePoint(schedmetrics.PreFilter, time.Now(), &status)
	if deferred := deferredIn(state); deferred != nil && deferred.of == "" {
		state.Delete(deferredKey)
	}
	skipped := sets.New[string]()
	defer func() { state.SetSkipFilterPlugins(skipped) }()

	nodes, err := f.cfg.Snapshot.NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("listing the nodes for PreFilter: %w", err)), nil
	}
	logger := newPointLogger(ctx, schedmetrics.PreFilter)
	restricting = sets.New[string]()
	var refused *fwk.Status
	for _, pl := range f.preFilter {
		own, s := answersOf(state, pl.name).toPreFilter(pl.name, func() (*fwk.PreFilterResult, *fwk.Status) {
			return f.runPreFilter(logger.context(ctx, pl.name), pl, state, pod, nodes)
		})
		switch {
		case s.IsSkip():
			skipped.Insert(pl.name)
			continue
		case s.Code() == fwk.UnschedulableAndUnresolvable:
			return nil, s.WithPlugin(pl.name), nil
		case s.Code() == fwk.Unschedulable:
			refused = s.WithPlugin(pl.name)
			continue
		case !s.IsSuccess():
			return nil, failed(schedmetrics.PreFilter, pl.name, s).WithPlugin(pl.name), nil
		}
		if !own.AllNodes() {
			restricting.Insert(pl.name)
		}
		result = result.Merge(own)
		if !result.AllNodes() && len(result.NodeNames) == 0 {
			return result, noNodeSatisfies(restricting), restricting
		}
	}
	return result, refused, restricting
}

// noNodeSatisfies returns the refusal in kube-scheduler's words, since it becomes part of the pod's
// condition.
func noNodeSatisfies(restricting sets.Set[string]) *fwk.Status {
	plugins := sets.List(restricting)
	if len(plugins) == 1 {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin %v", plugins[0]))
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
		fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", plugins))
}

func (f *Framework) runPreFilter(
	ctx context.Context, pl preFilterPlugin, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (result *fwk.PreFilterResult, status *fwk.Status) {
	result,
		status = callFor(ctx, f, state, schedmetrics.PreFilter, pl.name, func() (*fwk.PreFilterResult, *fwk.Status) {
		return pl.plugin.PreFilter(ctx, state, pod, nodes)
	})
	if !status.IsSkip() {
		pl.evaluations.Inc()
	}
	return result, status
}

// RunPreFilterExtensionAddPod calls AddPod of the PreFilter plugins that did not skip, as if
// podInfoToAdd ran on the node. It stops at the first plugin that does not succeed.
func (f *Framework) RunPreFilterExtensionAddPod(
	ctx context.Context, state fwk.CycleState, podToSchedule *corev1.Pod, podInfoToAdd fwk.PodInfo,
	nodeInfo fwk.NodeInfo,
) *fwk.Status {
	return f.runPreFilterExtensions(ctx, state, podToSchedule, nodeInfo, schedmetrics.PreFilterExtensionAddPod,
		func(ctx context.Context, ext fwk.PreFilterExtensions) *fwk.Status {
			return ext.AddPod(ctx, state, podToSchedule, podInfoToAdd, nodeInfo)
		})
}

// RunPreFilterExtensionRemovePod is RunPreFilterExtensionAddPod for a pod that is removed from the
// node.
func (f *Framework) RunPreFilterExtensionRemovePod(
	ctx context.Context, state fwk.CycleState, podToSchedule *corev1.Pod, podInfoToRemove fwk.PodInfo,
	nodeInfo fwk.NodeInfo,
) *fwk.Status {
	return f.runPreFilterExtensions(ctx, state, podToSchedule, nodeInfo, schedmetrics.PreFilterExtensionRemovePod,
		func(ctx context.Context, ext fwk.PreFilterExtensions) *fwk.Status {
			return ext.RemovePod(ctx, state, podToSchedule, podInfoToRemove, nodeInfo)
		})
}

func (f *Framework) runPreFilterExtensions(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo, point string,
	run func(context.Context, fwk.PreFilterExtensions) *fwk.Status,
) *fwk.Status {
	logger := newPointLogger(ctx, "PreFilterExtension")
	skipped := state.GetSkipFilterPlugins()
	for _, pl := range f.preFilter {
		if pl.extensions == nil || skipped.Has(pl.name) {
			continue
		}
		ctx := logger.context(ctx, pl.name)
		status := f.call(ctx, state, point, pl.name, func() *fwk.Status {
			return run(ctx, pl.extensions)
		})
		if !status.IsSuccess() {
			status = failed(point, pl.name, status)
			logger.Error(status.AsError(), "Plugin failed", "plugin", pl.name, "operation", point,
				"pod", klog.KObj(pod), "node", nodeRef(nodeInfo))
			return status
		}
	}
	return nil
}

func nodeRef(nodeInfo fwk.NodeInfo) klog.ObjectRef {
	if nodeInfo == nil || nodeInfo.Node() == nil {
		return klog.ObjectRef{}
	}
	return klog.KObj(nodeInfo.Node())
}
