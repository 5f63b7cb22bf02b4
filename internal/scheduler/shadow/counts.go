// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// verdict is how a decision of a shadow compares. v1alpha1.ShadowStatus describes each.
type verdict string

const (
	agreed          verdict = "agreed"
	nodeScoredLower verdict = "node_scored_lower"
	nodeRefused     verdict = "node_refused"
	activeOnlyFits  verdict = "active_only_fits"
	shadowOnlyFits  verdict = "shadow_only_fits"
	skipped         verdict = "skipped"
)

// mismatch reports whether only one of the two can place the pod.
func (v verdict) mismatch() bool { return v == activeOnlyFits || v == shadowOnlyFits }

const (
	filterPoint = "Filter"
	scorePoint  = "Score"

	// maxLosses is the number of score losses that are kept, and maxCauses the number of causes
	// that are reported.
	maxLosses = 1000
	maxCauses = 10
)

// comparison is a decision of a shadow, compared.
type comparison struct {
	verdict verdict
	// point and plugin are the cause of a disagreement, "" if it was not looked for or not found.
	point, plugin string
	// loss is the loss of score, if scored is true.
	loss   int64
	scored bool
	// text describes the first mismatch.
	text string
	// owner is the owner of the pod, "" if owners do not count.
	owner string
}

// scores sets the loss of score, and the plugin that contributes most to it.
func (c *comparison) scores(ctx context.Context, d *Decided, decision *algorithm.Decision) error {
	scores, err := decision.Scores(ctx, decision.SuggestedHost, d.Node)
	if err != nil || len(scores) < 2 {
		return err
	}
	best, chosen := &scores[0], &scores[1]
	c.point, c.scored, c.loss = scorePoint, true, best.TotalScore-chosen.TotalScore
	most := int64(0)
	for _, score := range best.Scores {
		lower := score.Score
		for _, other := range chosen.Scores {
			if other.Name == score.Name {
				lower -= other.Score
			}
		}
		if lower > most {
			c.plugin, most = score.Name, lower
		}
	}
	return nil
}

// counts are the counts of one instance of a shadow beside one revision of its profile.
type counts struct {
	name   string
	shadow *profile.Instance
	// status has the numbers, without what report adds.
	status v1alpha1.ShadowStatus
	causes map[v1alpha1.ShadowCause]int64 // without their numbers
	// losses are the latest losses of score, and next is the place of the next one.
	losses []int64
	next   int
	owners owners
	// explained is when the cause of a disagreement was last looked for. It belongs to the loop.
	explained time.Time
}

func newCounts(shadow *profile.Instance, of *resolve.Profile, now time.Time) *counts {
	return &counts{
		name: shadow.Config.Name, shadow: shadow,
		status: v1alpha1.ShadowStatus{
			Profile: of.Name, ProfileRevision: of.Revision, Revision: shadow.Config.Revision,
			Since: metav1.NewTime(now).Rfc3339Copy(),
		},
		causes: map[v1alpha1.ShadowCause]int64{},
	}
}

func (c *counts) add(found comparison) {
	metrics.ShadowDecisions.WithLabelValues(c.name, string(found.verdict)).Inc()
	s := &c.status
	switch found.verdict {
	case agreed:
		s.Agreed++
	case nodeScoredLower:
		s.NodeScoredLower++
	case nodeRefused:
		s.NodeRefused++
	case activeOnlyFits:
		s.ActiveOnlyFits++
	case shadowOnlyFits:
		s.ShadowOnlyFits++
	case skipped:
		s.Skipped++
		return
	}
	s.Decisions++
	if found.owner != "" {
		c.owners.add(found.owner, found.verdict)
	}
	if found.plugin != "" {
		c.causes[v1alpha1.ShadowCause{Plugin: found.plugin, ExtensionPoint: found.point}]++
	}
	if found.scored {
		c.addLoss(found.loss)
	}
	if found.text != "" {
		s.FirstMismatch = found.text
	}
}

func (c *counts) addLoss(loss int64) {
	if len(c.losses) < maxLosses {
		c.losses = append(c.losses, loss)
		return
	}
	c.losses[c.next] = loss
	c.next = (c.next + 1) % maxLosses
}

// report returns the counts as the API has them.
func (c *counts) report() *v1alpha1.ShadowStatus {
	s := c.status.DeepCopy()
	if n := len(c.losses); n > 0 {
		sorted := slices.Sorted(slices.Values(c.losses))
		s.ScoreLoss = &v1alpha1.ShadowScoreLoss{
			Samples: int64(n), P50: sorted[(n-1)*50/100], P99: sorted[(n-1)*99/100], Max: sorted[n-1],
		}
	}
	for cause, decisions := range c.causes {
		cause.Decisions = decisions
		s.Causes = append(s.Causes, cause)
	}
	slices.SortFunc(s.Causes, func(a, b v1alpha1.ShadowCause) int {
		return cmp.Or(cmp.Compare(b.Decisions, a.Decisions), strings.Compare(a.Plugin, b.Plugin),
			strings.Compare(a.ExtensionPoint, b.ExtensionPoint))
	})
	s.Causes = s.Causes[:min(len(s.Causes), maxCauses)]
	return s
}
