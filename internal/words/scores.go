// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package words

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/livesched/livesched/api/v1alpha1"
)

// HiddenNode stands for the name of a node that the user may not see.
const HiddenNode = "(hidden)"

// ScoreColumns returns the plugins whose scores differ between nodes, with the greatest difference
// first, and the others with their score. name names a plugin in front of its score.
func ScoreColumns(top []v1alpha1.NodeScore, name func(plugin string) string) (differ, equal []string) {
	least, most := map[string]int64{}, map[string]int64{}
	for _, n := range top {
		for plugin := range n.Scores {
			least[plugin], most[plugin] = n.Scores[plugin], n.Scores[plugin]
		}
	}
	for plugin := range least {
		for _, n := range top {
			least[plugin], most[plugin] = min(least[plugin], n.Scores[plugin]), max(most[plugin], n.Scores[plugin])
		}
		if least[plugin] != most[plugin] || len(top) == 1 {
			differ = append(differ, plugin)
		} else {
			equal = append(equal, fmt.Sprintf("%s %d", name(plugin), least[plugin]))
		}
	}
	slices.SortFunc(differ, func(a, b string) int {
		return cmp.Or(cmp.Compare(most[b]-least[b], most[a]-least[a]), cmp.Compare(most[b], most[a]), cmp.Compare(a, b))
	})
	slices.Sort(equal)
	return differ, equal
}

// ComparedScores returns the scores of the best node and of the compared one, if these are two
// nodes.
func ComparedScores(n *v1alpha1.NodeExplanation) (scores []v1alpha1.NodeScore) {
	if n.Best != nil {
		scores = append(scores, *n.Best)
	}
	if n.Score != nil && (n.Best == nil || n.Best.Node != n.Score.Node) {
		scores = append(scores, *n.Score)
	}
	return scores
}

// Rank returns how a node ranks among those that the pod fits on, "" if there is nothing to add.
func Rank(n *v1alpha1.NodeExplanation) string {
	switch {
	case !n.Fits && n.Best == nil:
		return "It fits on no other node either."
	case n.Score != nil && n.Best != nil && n.Score.Total == n.Best.Total:
		return fmt.Sprintf("No node has a higher total than its %d.", n.Score.Total)
	case n.Score != nil && n.Best != nil:
		return fmt.Sprintf("Its total is %d, rank %s; the highest is %d.", n.Score.Total, Grouped.Sprintf("%d", n.Rank),
			n.Best.Total)
	}
	return ""
}

// Agreement returns the share of decisions on which a shadow agrees, rounded down, so that 100 %
// means all.
func Agreement(s *v1alpha1.ShadowStatus) string {
	if s.Decisions == 0 {
		return "0 %"
	}
	tenths := s.Agreed * 1000 / s.Decisions
	if tenths%10 == 0 {
		return fmt.Sprintf("%d %%", tenths/10)
	}
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
}
