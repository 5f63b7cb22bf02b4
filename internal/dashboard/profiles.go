// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
)

// profileRow is one profile.
type profileRow struct {
	Name          string
	SchedulerName string
	Revision      string
	Since         metav1.Time
	Ready         string // the status of the condition
	Problem       string // why it is not True
	Rollout       string
	RolloutBad    bool
	Shadow        string
	// Compared and With are what it can be compared with: a shadow with the profile that it
	// follows. With is "" if the user has to choose.
	Compared, With string
}

func profileRowOf(p *v1alpha1.SchedulerProfile) profileRow {
	row := profileRow{Name: p.Name, Ready: "Unknown"}
	row.SchedulerName = cmp.Or(p.Status.SchedulerName, p.Spec.SchedulerName)
	if row.SchedulerName == "" && p.Spec.Mode != v1alpha1.ProfileShadow {
		row.SchedulerName = p.Name
	}
	if active := p.Status.Active; active != nil {
		row.Revision, row.Since = active.Revision, active.Since
	}
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		row.Problem = "livesched has not processed it."
	case p.Generation > 0 && ready.ObservedGeneration > 0 && ready.ObservedGeneration < p.Generation:
		row.Problem = "livesched has not processed its latest change."
	default:
		row.Ready = string(ready.Status)
		if ready.Status != metav1.ConditionTrue {
			row.Problem = ready.Reason
			if ready.Message != "" {
				row.Problem += ": " + ready.Message
			}
		}
	}
	row.Rollout, row.RolloutBad = rolloutWords(p.Status.Rollout)
	row.Shadow = shadowWords(p)
	row.Compared = p.Name
	if p.Spec.Mode == v1alpha1.ProfileShadow && p.Spec.Shadow != nil {
		row.Compared, row.With = p.Spec.Shadow.ProfileRef.Name, p.Name
	}
	return row
}

// rolloutWords describes a roll-out, and whether it was aborted. It is "" if there is none.
func rolloutWords(r *v1alpha1.RolloutStatus) (text string, bad bool) {
	if r == nil {
		return "", false
	}
	text = string(r.Phase)
	if r.Phase == v1alpha1.RolloutHealthy {
		return text, false
	}
	if r.Stage != "" {
		text += words.Grouped.Sprintf(": stage %s, %d %% of owners", r.Stage, r.Weight)
	}
	switch {
	case r.CanaryRevision == "":
	case r.Stage != "":
		text += " get " + r.CanaryRevision
	default: // no owner gets it any more
		text += ": revision " + r.CanaryRevision
	}
	if r.Message != "" {
		text += ". " + r.Message
	}
	return text, r.Phase == v1alpha1.RolloutDegraded
}

// shadowWords tells how often a shadow agrees, rounded down. It is "" for other profiles.
func shadowWords(p *v1alpha1.SchedulerProfile) string {
	s := p.Status.Shadow
	switch {
	case s == nil && p.Spec.Shadow != nil:
		return "Shadow: no decisions yet"
	case s == nil:
		return ""
	case s.Decisions == 0:
		return "Shadow of " + s.Profile + ": no decisions yet"
	}
	return "Agrees with " + s.Profile + " in " + words.Agreement(s) + " of " + words.Many(s.Decisions, "decision")
}
