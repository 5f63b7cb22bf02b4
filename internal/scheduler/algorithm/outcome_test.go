// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
)

// outcome is the outcome of an attempt on the fast path, with the node that was taken.
type outcome struct {
	fastpath.Attempt
	fastpath.Placement
	reason fastpath.Reason
}

// tryFast decides on the fast path, and takes a node if the pod fits one.
func (d *Decider) tryFast(ctx context.Context, p Params, state fwk.CycleState, pod *corev1.Pod) outcome {
	if d.cfg.Engine == nil {
		return outcome{reason: "off"}
	}
	r := request{p, state, pod}
	if reason := d.reasonForScalarPath(r); reason != fastpath.None {
		return outcome{reason: reason}
	}
	o := outcome{Attempt: d.attemptFast(ctx, r, nil)}
	if fit, ok := o.Fit(); ok {
		o.Placement, _ = fit.Take(ctx, d.draw(fit.Len(), fit.NumPods))
	}
	o.reason = o.Attempt.Reason()
	return o
}
