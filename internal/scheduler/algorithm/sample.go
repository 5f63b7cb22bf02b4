// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// minFeasibleNodesToFind is the minimum number of nodes that are scored, if that many fit, whatever
// the percentage. The number is kube-scheduler's.
const minFeasibleNodesToFind = 100

// numFeasibleNodesToFind returns the number of feasible nodes that is enough, for a number of
// nodes.
func (p *Params) numFeasibleNodesToFind(nodes int) int {
	if p.EveryNode {
		return nodes
	}
	// An extender may refuse nodes later, and there must be nodes to choose from by their scores.
	if !p.Framework.HasScorePlugins() && !slices.ContainsFunc(p.Extenders, fwk.Extender.IsFilter) &&
		!slices.ContainsFunc(p.Extenders, fwk.Extender.IsPrioritizer) {
		return 1
	}
	percentage := int(p.PercentageOfNodesToScore)
	if percentage <= 0 || percentage >= 100 || nodes < minFeasibleNodesToFind {
		return nodes
	}
	return max(nodes*percentage/100, minFeasibleNodesToFind)
}
