// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
)

// scoresView is a table of scores, with a column for each plugin.
type scoresView struct {
	Plugins []string
	Rows    []scoreRow
	Equal   string // plugins that score all these nodes alike
	Hidden  bool
}

type scoreRow struct {
	Node   string
	Chosen bool
	Total  int64
	Scores []int64
}

// comparedView compares one node with the best one.
type comparedView struct {
	*v1alpha1.NodeExplanation
	Text   string
	Detail string
	Scores *scoresView
}

// scoresOf returns the table of scores. It is nil if there are none.
func scoresOf(top []v1alpha1.NodeScore, chosen string) *scoresView {
	if len(top) == 0 {
		return nil
	}
	v := &scoresView{}
	var equal []string
	v.Plugins, equal = pluginColumns(top)
	v.Equal = strings.Join(equal, ", ")
	for i := range top {
		n := &top[i]
		row := scoreRow{Node: cmp.Or(n.Node, hiddenNode), Chosen: n.Node == chosen && chosen != "", Total: n.Total}
		v.Hidden = v.Hidden || n.Node == ""
		for _, plugin := range v.Plugins {
			row.Scores = append(row.Scores, n.Scores[plugin])
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// pluginColumns returns the plugins whose scores differ between nodes, with the greatest difference
// first, and the others with their score.
func pluginColumns(top []v1alpha1.NodeScore) (differ, equal []string) {
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
			equal = append(equal, fmt.Sprintf("%s %d", plugin, least[plugin]))
		}
	}
	slices.SortFunc(differ, func(a, b string) int {
		return cmp.Or(cmp.Compare(most[b]-least[b], most[a]-least[a]), cmp.Compare(a, b))
	})
	slices.Sort(equal)
	return differ, equal
}

// comparedOf compares a node with the best one.
func comparedOf(n *v1alpha1.NodeExplanation, bound *v1alpha1.BoundExplanation) *comparedView {
	v := &comparedView{NodeExplanation: n}
	switch {
	case !n.Fits:
		v.Text = "The pod does not fit on the node " + n.Name + " now."
	case bound != nil && bound.Node == n.Name:
		v.Text = "The pod is on the node " + n.Name + ", and would fit there again."
	default:
		v.Text = "The pod fits on the node " + n.Name + " now."
	}
	var scores []v1alpha1.NodeScore
	if n.Best != nil {
		scores = append(scores, *n.Best)
	}
	if n.Score != nil && (n.Best == nil || n.Best.Node != n.Score.Node) {
		scores = append(scores, *n.Score)
	}
	switch {
	case !n.Fits && n.Best == nil:
		v.Detail = "It fits on no other node either."
	case n.Score != nil && n.Best != nil && n.Score.Total == n.Best.Total:
		v.Detail = fmt.Sprintf("No node has a higher total than its %d.", n.Score.Total)
	case n.Score != nil && n.Best != nil:
		v.Detail = fmt.Sprintf("Its total is %d, rank %d; the highest is %d.", n.Score.Total, n.Rank, n.Best.Total)
	}
	v.Scores = scoresOf(scores, n.Name)
	return v
}
