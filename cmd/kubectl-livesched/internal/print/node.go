// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"fmt"
	"io"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/words"
)

// printNode prints why a pod is not on a certain node.
func printNode(w io.Writer, e *v1alpha1.PodExplanation, wide bool) error {
	n := e.Node
	name := terminal.Of(w).Bold(nameOf(e))
	current := e.Bound != nil && e.Bound.Node == n.Name
	switch {
	case !n.Fits:
		Line(w, fmt.Sprintf("%s does not fit on node %s now.", name, n.Name))
	case current:
		Line(w, fmt.Sprintf("%s is on node %s, and would fit there again.", name, n.Name))
	default:
		Line(w, fmt.Sprintf("%s fits on node %s now.", name, n.Name))
	}
	for i := range n.Refusals {
		r := &n.Refusals[i]
		text := words.Refusal(r)
		if wide {
			text += fmt.Sprintf(" (%s, %s)", r.Plugin, r.Reason)
		}
		terminal.Of(w).Paragraph("  - ", "    ", text)
	}
	switch {
	case !n.Fits && n.Best == nil:
		writeItem(w, "It fits on no other node either.")
	case n.Score != nil && n.Best != nil && n.Score.Total == n.Best.Total:
		writeItem(w, fmt.Sprintf("No node has a higher total than its %d.", n.Score.Total))
	case n.Score != nil && n.Best != nil:
		writeItem(w, fmt.Sprintf("Its total is %d, rank %s; the highest is %d.", n.Score.Total,
			words.Grouped.Sprintf("%d", n.Rank), n.Best.Total))
	}
	return printScores(w, nodeScores(n), wide)
}

// nodeScores returns the scores of the best node and of the node, if these are two nodes.
func nodeScores(n *v1alpha1.NodeExplanation) (scores []v1alpha1.NodeScore) {
	if n.Best != nil {
		scores = append(scores, *n.Best)
	}
	if n.Score != nil && (n.Best == nil || n.Best.Node != n.Score.Node) {
		scores = append(scores, *n.Score)
	}
	return scores
}
