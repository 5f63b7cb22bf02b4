// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// scalarAttempt is one decision on the scalar path.
type scalarAttempt struct {
	*Scheduler
	params    Params
	state     fwk.CycleState
	pod       *corev1.Pod
	allNodes  []fwk.NodeInfo
	diagnosis schedframework.Diagnosis

	// feasible and scores are the outcome of schedule: the nodes that the pod fits and, if there
	// are several, their scores.
	feasible []fwk.NodeInfo
	scores   []fwk.NodePluginScores
}

// newScalar starts a decision on the scalar path.
func (s *Scheduler) newScalar(p Params, state fwk.CycleState, pod *corev1.Pod) *scalarAttempt {
	return &scalarAttempt{Scheduler: s, params: p, state: state, pod: pod}
}

// schedule decides on the scalar path.
func (c *scalarAttempt) schedule(ctx context.Context) (Result, error) {
	allNodes, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return Result{}, err
	}
	if len(allNodes) == 0 {
		return Result{}, ErrNoNodesAvailable
	}
	c.allNodes = allNodes
	c.feasible, err = c.findNodesThatFit(ctx)
	if err != nil {
		return Result{}, err
	}
	evaluated := len(c.feasible) + c.diagnosis.NodeToStatus.Len()
	switch len(c.feasible) {
	case 0:
		return Result{}, &schedframework.FitError{Pod: c.pod, NumAllNodes: len(allNodes), Diagnosis: c.diagnosis}
	case 1:
		c.placed = placed{host: c.feasible[0].Node().Name}
		return Result{SuggestedHost: c.placed.host, EvaluatedNodes: evaluated, FeasibleNodes: 1, TiedNodes: 1}, nil
	}
	c.scores, err = c.prioritize(ctx, c.feasible)
	if err != nil {
		return Result{}, err
	}
	chosen, tied := c.selectHost()
	c.placed = placed{host: chosen.Name, scores: c.scores}
	return Result{
		SuggestedHost: chosen.Name, EvaluatedNodes: evaluated, FeasibleNodes: len(c.feasible),
		Total: chosen.TotalScore, TiedNodes: tied,
	}, nil
}

// selectHost returns the node with the highest total, or chooses one of those that share it. tied
// is their number.
func (c *scalarAttempt) selectHost() (chosen *fwk.NodePluginScores, tied int) {
	var best []int
	for i := range c.scores {
		switch {
		case len(best) == 0 || c.scores[i].TotalScore > c.scores[best[0]].TotalScore:
			best = append(best[:0], i)
		case c.scores[i].TotalScore == c.scores[best[0]].TotalScore:
			best = append(best, i)
		}
	}
	drawn := c.draw(len(best), func(i int) int { return len(c.feasible[best[i]].GetPods()) })
	return &c.scores[best[drawn]], len(best)
}
