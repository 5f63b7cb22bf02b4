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
	if text := words.Rank(n); text != "" {
		writeItem(w, text)
	}
	return printScores(w, words.ComparedScores(n), wide)
}
