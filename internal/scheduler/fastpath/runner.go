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

// runner asks some of the plugins of a profile about nodes, on behalf of all pods that are equal in
// what these go by.
type runner struct {
	plugins *framework.Framework
	// state is what PreFilter and PreScore of the plugins left for these pods.
	state *schedframework.CycleState
	// named is true if PreFilter named the nodes that are left. Such pods take the scalar path, on
	// few nodes.
	named bool
}

// newRunner asks the plugins what they make of the pods before they have seen a node.
func newRunner(ctx context.Context, plugins *framework.Framework, pod *corev1.Pod) (runner, error) {
	a := runner{plugins: plugins, state: schedframework.NewCycleState()}
	allowed, status, _ := plugins.RunPreFilterPlugins(ctx, a.state, pod)
	if !status.IsSuccess() {
		return a, statusError(status)
	}
	if !allowed.AllNodes() {
		a.named = true
		return a, nil
	}
	nodes, err := plugins.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return a, err
	}
	if status := plugins.RunPreScorePlugins(ctx, a.state, pod, nodes); !status.IsSuccess() {
		return a, statusError(status)
	}
	return a, nil
}

// statusError is the error in a status that is no success, also if it is a refusal.
func statusError(status *fwk.Status) error {
	if err := status.AsError(); err != nil {
		return err
	}
	return errors.New(status.Message())
}

// ask asks about one node. If the pod fits, scores by plugin are written to scores, and 0 for
// plugins that skip.
func (a *runner) ask(ctx context.Context, info fwk.NodeInfo, pod *corev1.Pod, scores []int64) (fit bool, err error) {
	status := a.plugins.RunFilterPlugins(ctx, a.state, pod, info)
	if status.IsRejected() {
		return false, nil
	}
	if !status.IsSuccess() {
		return false, statusError(status)
	}
	clear(scores)
	if status := a.plugins.ScoreNode(ctx, a.state, pod, info, scores); !status.IsSuccess() {
		return false, statusError(status)
	}
	return true, nil
}

// askAll asks about all nodes whose verdict is that the pod fits, in parallel, and changes the
// verdict if the plugins say otherwise. It returns the scores by slot and plugin, of width each.
// They are valid until the next call.
func (a *runner) askAll(ctx context.Context, r *refresher, pod *corev1.Pod, verdict []uint16, width int) ([]int64, error) {
	r.allScores = resized(r.allScores, len(verdict)*width)
	var failure atomic.Pointer[error]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.plugins.Parallelizer().Until(ctx, len(verdict), func(slot int) {
		if verdict[slot] != fits {
			return
		}
		fit, err := a.ask(ctx, r.snapshot.Info(cache.Slot(slot)), pod, r.allScores[slot*width:(slot+1)*width])
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
		return nil, context.Cause(ctx) // the plugins did not run on all of them
	}
	return r.allScores, nil
}
