// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

// minFeasibleNodesToFind is the minimum number of nodes that are scored, if that many fit, whatever
// the percentage. The number is kube-scheduler's.
const minFeasibleNodesToFind = 100

// numFeasibleNodesToFind returns the number of feasible nodes that is enough, for a number of
// nodes.
func (p *Params) numFeasibleNodesToFind(nodes int) int {
	if !p.hasExtenderFilter() && !p.hasScoring() {
		return 1
	}
	percentage := int(p.PercentageOfNodesToScore)
	if percentage <= 0 || percentage >= 100 || nodes < minFeasibleNodesToFind {
		return nodes
	}
	return max(nodes*percentage/100, minFeasibleNodesToFind)
}

// hasExtenderFilter reports whether an extender may refuse nodes later.
func (p *Params) hasExtenderFilter() bool {
	for _, extender := range p.Extenders {
		if extender.IsFilter() {
			return true
		}
	}
	return false
}

// hasScoring reports whether nodes are scored, so that the number to choose from matters.
func (p *Params) hasScoring() bool {
	if p.Framework.HasScorePlugins() {
		return true
	}
	for _, extender := range p.Extenders {
		if extender.IsPrioritizer() {
			return true
		}
	}
	return false
}
