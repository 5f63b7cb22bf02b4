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
	*Decider
	request
	allNodes  []fwk.NodeInfo
	diagnosis schedframework.Diagnosis
	// partial means that the pod may fit nodes that were not evaluated.
	partial bool

	// feasible and scores are the outcome of decide: the nodes that the pod fits and, if there
	// are several, their scores.
	feasible []fwk.NodeInfo
	scores   []fwk.NodePluginScores
}

// newScalar starts a decision on the scalar path.
func (d *Decider) newScalar(r request) *scalarAttempt {
	return &scalarAttempt{Decider: d, request: r}
}

// decide decides on the scalar path.
func (s *scalarAttempt) decide(ctx context.Context) (Decision, error) {
	allNodes, err := s.cfg.Snapshot.NodeInfos().List()
	if err != nil {
		return Decision{}, err
	}
	if len(allNodes) == 0 {
		return Decision{}, ErrNoNodesAvailable
	}
	s.allNodes = allNodes
	s.feasible, err = s.findNodesThatFit(ctx)
	if err != nil {
		return Decision{}, err
	}
	result := Result{EvaluatedNodes: len(s.feasible) + s.diagnosis.NodeToStatus.Len(), FeasibleNodes: len(s.feasible),
		Partial: s.partial}
	switch len(s.feasible) {
	case 0:
		return Decision{}, &schedframework.FitError{Pod: s.pod, NumAllNodes: len(allNodes), Diagnosis: s.diagnosis}
	case 1:
		result.SuggestedHost, result.TiedNodes = s.feasible[0].Node().Name, 1
		return Decision{Result: result}, nil
	}
	s.scores, err = s.prioritize(ctx, s.feasible)
	if err != nil {
		return Decision{}, err
	}
	chosen, tied := s.selectHost()
	result.SuggestedHost, result.Total, result.TiedNodes = chosen.Name, chosen.TotalScore, tied
	return Decision{Result: result, scores: s.scores}, nil
}

// selectHost returns the node with the highest total, or chooses one of those that share it. tied
// is their number.
func (s *scalarAttempt) selectHost() (chosen *fwk.NodePluginScores, tied int) {
	best := s.best()
	drawn := s.draw(len(best), func(i int) int { return len(s.feasible[best[i]].GetPods()) })
	return &s.scores[best[drawn]], len(best)
}

// best returns the positions of the nodes with the highest total.
func (s *scalarAttempt) best() (best []int) {
	for i := range s.scores {
		switch {
		case len(best) == 0 || s.scores[i].TotalScore > s.scores[best[0]].TotalScore:
			best = append(best[:0], i)
		case s.scores[i].TotalScore == s.scores[best[0]].TotalScore:
			best = append(best, i)
		}
	}
	return best
}
