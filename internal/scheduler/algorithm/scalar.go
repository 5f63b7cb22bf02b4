// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// scalarAttempt is one decision on the scalar path.
type scalarAttempt struct {
	*Algorithm
	request
	allNodes  []fwk.NodeInfo
	diagnosis schedframework.Diagnosis

	// feasible and scores are the outcome of schedule: the nodes that the pod fits and, if there
	// are several, their scores.
	feasible []fwk.NodeInfo
	scores   []fwk.NodePluginScores
}

// newScalar starts a decision on the scalar path.
func (a *Algorithm) newScalar(r request) *scalarAttempt {
	return &scalarAttempt{Algorithm: a, request: r}
}

// schedule decides on the scalar path.
func (c *scalarAttempt) schedule(ctx context.Context) (Decision, error) {
	allNodes, err := c.cfg.Snapshot.NodeInfos().List()
	if err != nil {
		return Decision{}, err
	}
	if len(allNodes) == 0 {
		return Decision{}, ErrNoNodesAvailable
	}
	c.allNodes = allNodes
	c.feasible, err = c.findNodesThatFit(ctx)
	if err != nil {
		return Decision{}, err
	}
	result := Result{EvaluatedNodes: len(c.feasible) + c.diagnosis.NodeToStatus.Len(), FeasibleNodes: len(c.feasible)}
	switch len(c.feasible) {
	case 0:
		return Decision{}, &schedframework.FitError{Pod: c.pod, NumAllNodes: len(allNodes), Diagnosis: c.diagnosis}
	case 1:
		result.SuggestedHost, result.TiedNodes = c.feasible[0].Node().Name, 1
		return Decision{Result: result}, nil
	}
	c.scores, err = c.prioritize(ctx, c.feasible)
	if err != nil {
		return Decision{}, err
	}
	chosen, tied := c.selectHost()
	result.SuggestedHost, result.Total, result.TiedNodes = chosen.Name, chosen.TotalScore, tied
	return Decision{Result: result, scores: c.scores}, nil
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
