// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
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
	v.Plugins, equal = words.ScoreColumns(top, func(plugin string) string { return plugin })
	v.Equal = strings.Join(equal, ", ")
	for i := range top {
		n := &top[i]
		isChosen := n.Node == chosen && chosen != ""
		row := scoreRow{Node: cmp.Or(n.Node, words.HiddenNode), Chosen: isChosen, Total: n.Total}
		v.Hidden = v.Hidden || n.Node == ""
		for _, plugin := range v.Plugins {
			row.Scores = append(row.Scores, n.Scores[plugin])
		}
		v.Rows = append(v.Rows, row)
	}
	return v
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
	v.Detail, v.Scores = words.Rank(n), scoresOf(words.ComparedScores(n), n.Name)
	return v
}
