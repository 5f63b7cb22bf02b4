// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

// minFeasibleNodesToFind is how many nodes are scored at least, if that many fit,
// whatever the percentage. The number is kube-scheduler's.
const minFeasibleNodesToFind = 100

// numFeasibleNodesToFind returns how many nodes that fit are enough, out of that
// many.
func (c *cycle) numFeasibleNodesToFind(nodes int) int {
	if !c.hasExtenderFilter() && !c.hasScoring() {
		return 1
	}
	percentage := int(c.profile.PercentageOfNodesToScore)
	if percentage <= 0 || percentage >= 100 || nodes < minFeasibleNodesToFind {
		return nodes
	}
	return max(nodes*percentage/100, minFeasibleNodesToFind)
}

// hasExtenderFilter tells whether nodes that fit now may be taken away later.
func (c *cycle) hasExtenderFilter() bool {
	for _, extender := range c.profile.Extenders {
		if extender.IsFilter() {
			return true
		}
	}
	return false
}

// hasScoring tells whether it matters how many nodes there are to choose from.
func (c *cycle) hasScoring() bool {
	if c.profile.Framework.HasScorePlugins() {
		return true
	}
	for _, extender := range c.profile.Extenders {
		if extender.IsPrioritizer() {
			return true
		}
	}
	return false
}
