// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/words"
)

// printShadow prints how the decisions of a shadow compare, nothing for other profiles.
func (p *ProfileStatus) printShadow(w io.Writer) {
	if p.Follows == "" {
		return
	}
	t := terminal.Of(w)
	_, _ = fmt.Fprintln(t)
	if p.Shadow == nil {
		t.Entry("", "  ", t.Bold("schedulerprofile/"+p.Name)+" is a shadow of "+p.Follows+": no decisions yet")
		return
	}
	s := p.Shadow
	since := duration.HumanDuration(time.Since(s.Since.Time))
	t.Entry("", "  ", fmt.Sprintf("%s is a shadow of %s: it agrees with %s of %s, in the last %s",
		t.Bold("schedulerprofile/"+p.Name), p.Follows, words.Agreement(s), words.Many(s.Decisions, "decision"), since))
	for _, line := range shadowLines(s, p.Follows) {
		t.Entry("  ", "    ", line)
	}
}

// shadowLines describes the disagreements.
func shadowLines(s *v1alpha1.ShadowStatus, follows string) (lines []string) {
	add := func(n int64, what string) {
		if n > 0 {
			lines = append(lines, words.Grouped.Sprintf("%d", n)+" "+what)
		}
	}
	scored := "where it scores another node higher than the chosen one"
	if loss := s.ScoreLoss; loss != nil {
		scored += words.Grouped.Sprintf(" (by %d points in the median, 99 %% by at most %d)", loss.P50, loss.P99)
	}
	add(s.NodeScoredLower, scored)
	add(s.NodeRefused, "where it refuses the chosen node, and finds another one")
	add(s.ActiveOnlyFits, "where the pod fits a node with "+follows+", and none with the shadow")
	add(s.ShadowOnlyFits, "where the pod fits a node with the shadow, and none with "+follows)
	add(s.Skipped, "were not compared")
	if len(s.Causes) > 0 {
		causes := make([]string, 0, len(s.Causes))
		for _, cause := range s.Causes {
			text := words.Grouped.Sprintf("%s at %s (%d)", cause.Plugin, cause.ExtensionPoint, cause.Decisions)
			causes = append(causes, text)
		}
		lines = append(lines, "causes, of a sample: "+strings.Join(causes, ", "))
	}
	if s.FirstMismatch != "" {
		lines = append(lines, "first: "+s.FirstMismatch)
	}
	return lines
}
