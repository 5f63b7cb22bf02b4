// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Evaluation is a decision with what led to it.
type Evaluation struct {
	Decision
	// Scores are the totals of the nodes that the pod fits, with the weighted scores of plugins.
	Scores []fwk.NodePluginScores
	// Diagnosis has the reasons of the nodes that it does not fit.
	Diagnosis schedframework.Diagnosis
}

// Evaluate is Decide on the scalar path, and returns what led to the decision. Unlike Decide,
// it scores a node that is the only one, too.
func (d *Decider) Evaluate(ctx context.Context, p Params, state fwk.CycleState, pod *corev1.Pod) (Evaluation, error) {
	c := d.newScalar(request{p, state, pod})
	decision, err := c.decide(ctx)
	if err == nil && len(c.feasible) == 1 {
		c.scores, err = c.prioritize(ctx, c.feasible)
	}
	return Evaluation{Decision: decision, Scores: c.scores, Diagnosis: c.diagnosis}, err
}
