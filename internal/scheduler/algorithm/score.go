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
func (c *scalarAttempt) prioritize(ctx context.Context, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, error) {
	framework := c.Framework
	if len(c.Extenders) == 0 && !framework.HasScorePlugins() {
		scores := make([]fwk.NodePluginScores, len(nodes))
		for i, node := range nodes {
			scores[i].Name = node.Node().Name
		}
		return scores, nil
	}
	if status := framework.RunPreScorePlugins(ctx, c.state, c.pod, nodes); !status.IsSuccess() {
		return nil, status.AsError()
	}
	scores, status := framework.RunScorePlugins(ctx, c.state, c.pod, nodes)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	c.addExtenderScores(ctx, nodes, scores)
	c.logScores(ctx, scores)
	return scores, nil
}

// logScores logs the composition of every node's total at verbosity 10.
func (c *scalarAttempt) logScores(ctx context.Context, scores []fwk.NodePluginScores) {
	logger := klog.FromContext(ctx).V(10)
	if !logger.Enabled() {
		return
	}
	for _, node := range scores {
		for _, score := range node.Scores {
			logger.Info("Plugin or extender scored node for pod",
				"pod", klog.KObj(c.pod), "node", node.Name, "by", score.Name, "score", score.Score)
		}
		logger.Info("Calculated node's final score for pod",
			"pod", klog.KObj(c.pod), "node", node.Name, "score", node.TotalScore)
	}
}
