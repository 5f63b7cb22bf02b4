// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// prioritize scores the nodes with the Score plugins and the extenders, and
// returns the scores in the order of nodes. Without either, all nodes are equal.
func (s *scalarAttempt) prioritize(ctx context.Context, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, error) {
	framework := s.Framework
	if len(s.Extenders) == 0 && !framework.HasScorePlugins() {
		scores := make([]fwk.NodePluginScores, len(nodes))
		for i, node := range nodes {
			scores[i].Name = node.Node().Name
		}
		return scores, nil
	}
	if status := framework.RunPreScorePlugins(ctx, s.state, s.pod, nodes); !status.IsSuccess() {
		return nil, status.AsError()
	}
	scores, status := framework.RunScorePlugins(ctx, s.state, s.pod, nodes)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	s.addExtenderScores(ctx, nodes, scores)
	s.logScores(ctx, scores)
	return scores, nil
}

// logScores logs the composition of every node's total at verbosity 10.
func (s *scalarAttempt) logScores(ctx context.Context, scores []fwk.NodePluginScores) {
	logger := klog.FromContext(ctx).V(10)
	if !logger.Enabled() {
		return
	}
	for _, node := range scores {
		for _, score := range node.Scores {
			logger.Info("Plugin or extender scored node for pod",
				"pod", klog.KObj(s.pod), "node", node.Name, "by", score.Name, "score", score.Score)
		}
		logger.Info("Calculated node's final score for pod",
			"pod", klog.KObj(s.pod), "node", node.Name, "score", node.TotalScore)
	}
}
