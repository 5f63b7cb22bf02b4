// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// runner runs some of the plugins of a setup on nodes, on behalf of all pods with equal inputs for
// these plugins. The callers pass the plugins of the instance that decides, since other instances
// of the setup may be closed.
type runner struct {
	// state is the state that PreFilter and PreScore of the plugins have left for these pods.
	state *schedframework.CycleState
	// named is true if PreFilter returned the names of the nodes to consider. Such pods take the
	// scalar path, on few nodes.
	named bool
}

// newRunner runs PreFilter and PreScore of some plugins of a Plan, before any node.
func newRunner(ctx context.Context, plan *Plan, plugins *framework.Framework, pod *corev1.Pod) (runner, error) {
	a := runner{state: schedframework.NewCycleState()}
	allowed, status, _ := plugins.RunPreFilterPlugins(ctx, a.state, pod)
	if !status.IsSuccess() {
		return a, statusError(status)
	}
	if !allowed.AllNodes() {
		a.named = true
		return a, nil
	}
	var nodes []fwk.NodeInfo
	if plan.listsNodes {
		var err error
		if nodes, err = plugins.SnapshotSharedLister().NodeInfos().List(); err != nil {
			return a, err
		}
	}
	if status := plugins.RunPreScorePlugins(ctx, a.state, pod, nodes); !status.IsSuccess() {
		return a, statusError(status)
	}
	return a, nil
}

// statusError returns the error in a status that is not a success, even if it is a refusal.
func statusError(status *fwk.Status) error {
	if err := status.AsError(); err != nil {
		return err
	}
	return errors.New(status.Message())
}

// ask runs the plugins on one node. If the pod fits, it writes the scores by plugin to scores, and
// 0 for plugins that skip.
func (r *runner) ask(
	ctx context.Context, plugins *framework.Framework, info fwk.NodeInfo, pod *corev1.Pod, scores []int64,
) (fit bool, err error) {
	status := plugins.RunFilterPlugins(ctx, r.state, pod, info)
	if status.IsRejected() {
		return false, nil
	}
	if !status.IsSuccess() {
		return false, statusError(status)
	}
	clear(scores)
	if status := plugins.ScoreNode(ctx, r.state, pod, info, scores); !status.IsSuccess() {
		return false, statusError(status)
	}
	return true, nil
}

// askAll runs the plugins, in parallel, on all nodes whose verdict is fits, and updates the
// verdicts. It returns the scores by slot and plugin, width scores per slot. They are valid until
// the next call.
func (r *runner) askAll(
	ctx context.Context, plugins *framework.Framework, refresher *refresher, pod *corev1.Pod, verdict []uint16,
	width int,
) ([]int64, error) {
	refresher.allScores = resized(refresher.allScores, len(verdict)*width)
	var failure atomic.Pointer[error]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	plugins.Parallelizer().Until(ctx, len(verdict), func(slot int) {
		if verdict[slot] != fits {
			return
		}
		fit, err := r.ask(ctx, plugins, refresher.snapshot.Info(cache.Slot(slot)), pod,
			refresher.allScores[slot*width:(slot+1)*width])
		if err != nil {
			failure.CompareAndSwap(nil, &err)
			cancel()
		} else if !fit {
			verdict[slot] = refused
		}
	}, schedmetrics.Filter)
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // the plugins did not run on all nodes
	}
	return refresher.allScores, nil
}
