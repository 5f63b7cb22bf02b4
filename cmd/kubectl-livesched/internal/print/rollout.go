// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/words"
)

// ProfileRollout is the output of the command rollout status.
type ProfileRollout struct {
	Profile string `json:"profile"`
	Rollout
	Problems []string `json:"problems,omitempty"`
}

// Rollout is the roll-out of a profile.
type Rollout struct {
	v1alpha1.RolloutStatus
	// Steps are all steps from the stage Shadow to the promotion, none once the roll-out has ended.
	Steps []RolloutStep `json:"steps,omitempty"`
}

// RolloutStep is a step of a roll-out.
type RolloutStep struct {
	Stage rollout.Stage `json:"stage"`
	State StepState     `json:"state"`
	Text  string        `json:"text"`
}

// StepState is the state of a step of a roll-out.
type StepState string

// The states of a step.
const (
	StepDone    StepState = "Done"
	StepPresent StepState = "Present"
	StepToCome  StepState = "ToCome"
)

// NewProfileRollout returns the roll-out of a profile, without a phase if the status has none.
func NewProfileRollout(p *v1alpha1.SchedulerProfile) *ProfileRollout {
	return &ProfileRollout{Profile: p.Name, Rollout: ptr.Deref(newRollout(p), Rollout{}),
		Problems: profileProblems(p)}
}

// newRollout returns the roll-out of a profile, nil if the status has none.
func newRollout(p *v1alpha1.SchedulerProfile) *Rollout {
	if p.Status.Rollout == nil || !resolve.IsCanary(&p.Spec) {
		return nil
	}
	r := &Rollout{RolloutStatus: *p.Status.Rollout}
	if r.underWay() {
		r.Steps = stepsOf(resolve.RolloutPlan(&p.Spec), &r.RolloutStatus)
	}
	return r
}

func (r *Rollout) underWay() bool {
	return r.Phase == v1alpha1.RolloutProgressing || r.Phase == v1alpha1.RolloutPaused
}

// stepsOf returns the steps of a roll-out that is under way.
func stepsOf(plan *rollout.Plan, status *v1alpha1.RolloutStatus) []RolloutStep {
	var steps []RolloutStep
	if plan.ShadowFor > 0 {
		steps = append(steps, RolloutStep{Stage: rollout.Shadow,
			Text: "Shadow for " + duration.HumanDuration(plan.ShadowFor)})
	}
	present := 0
	if status.Stage == string(rollout.Canary) {
		present = len(steps) + int(ptr.Deref(status.CurrentStepIndex, 0))
	}
	for _, step := range plan.Steps {
		steps = append(steps, RolloutStep{Stage: rollout.Canary, Text: stepText(step)})
	}
	steps = append(steps, RolloutStep{Stage: rollout.Promoted, Text: "100 % of owners: promoted"})
	for i := range steps {
		switch {
		case i < present:
			steps[i].State = StepDone
		case i == present:
			steps[i].State = StepPresent
		default:
			steps[i].State = StepToCome
		}
	}
	return steps
}

func stepText(step rollout.Step) string {
	switch {
	case step.Weight > 0:
		return fmt.Sprintf("%d %% of owners", step.Weight)
	case step.Pause > 0:
		return "Pause for " + duration.HumanDuration(step.Pause)
	}
	return "Pause until promoted"
}

// Print prints the roll-out for people.
func (r *ProfileRollout) Print(w io.Writer) error {
	t := terminal.Of(w)
	t.Entry("", "  ", t.Bold("schedulerprofile/"+r.Profile)+": "+r.phase(t))
	if r.underWay() || r.Phase == v1alpha1.RolloutDegraded {
		_, _ = fmt.Fprintln(t)
		header := []string{"REVISION", "ROLE", "WEIGHT", "OWNERS", "DECISION TIME"}
		if err := Table(w, header, r.revisions()); err != nil {
			return err
		}
	}
	if len(r.Steps) > 0 {
		_, _ = fmt.Fprintln(t)
	}
	for _, step := range r.Steps {
		t.Entry(r.marker(t, step.State)+" ", "  ", r.stepLine(step))
	}
	if evidence := r.evidence(); len(evidence) > 0 {
		_, _ = fmt.Fprintln(t)
		for _, line := range evidence {
			t.Entry("", "  ", line)
		}
	}
	if r.Phase != v1alpha1.RolloutDegraded { // the message has the reason
		printProblems(w, "schedulerprofile/"+r.Profile, r.Problems)
	}
	return nil
}

// phase returns the phase and why the roll-out is in it.
func (r *Rollout) phase(t *terminal.Terminal) string {
	phase := string(r.Phase)
	switch r.Phase {
	case "":
		return "no roll-out yet"
	case v1alpha1.RolloutHealthy:
		return t.Good(phase) + ": revision " + cmp.Or(r.StableRevision, None) + " decides all pods"
	case v1alpha1.RolloutPaused:
		phase = t.Warn(phase)
	case v1alpha1.RolloutDegraded:
		phase = t.Bad(phase)
	}
	if r.Message != "" {
		phase += ": " + r.Message
	}
	return phase
}

// revisions returns the rows of the table of the two revisions.
func (r *Rollout) revisions() [][]string {
	stableOwners, canaryOwners := None, None
	if r.counted() {
		stableOwners = words.Grouped.Sprintf("%d", r.StableOwners)
		canaryOwners = words.Grouped.Sprintf("%d", r.CanaryOwners)
	}
	row := func(revision, role string, weight int32, owners string, time *metav1.Duration) []string {
		return []string{cmp.Or(revision, None), role, fmt.Sprintf("%d %%", weight), owners, decisionTime(time)}
	}
	return [][]string{
		row(r.StableRevision, "stable", 100-r.Weight, stableOwners, r.StableDecision),
		row(r.CanaryRevision, "canary", r.Weight, canaryOwners, r.CanaryDecision),
	}
}

// counted reports whether owners with each revision have been counted, as in the stage Canary.
func (r *Rollout) counted() bool {
	return r.Stage == string(rollout.Canary) || r.StableOwners+r.CanaryOwners > 0
}

// decisionTime returns how long a decision takes, with three digits.
func decisionTime(of *metav1.Duration) string {
	if of == nil {
		return None
	}
	unit := time.Nanosecond
	for of.Duration >= 1000*unit {
		unit *= 10
	}
	return of.Round(unit).String()
}

// marker returns the marker of a step: it differs also without colours.
func (r *Rollout) marker(t *terminal.Terminal, state StepState) string {
	switch {
	case state == StepDone:
		return t.Good("✔")
	case state == StepToCome:
		return t.Dim("○")
	case r.Phase == v1alpha1.RolloutPaused:
		return t.Warn("●")
	}
	return t.Bold("●")
}

// stepLine returns the text of a step, with its age if it is the present one.
func (r *Rollout) stepLine(step RolloutStep) string {
	if step.State != StepPresent || r.Since == nil {
		return step.Text
	}
	return step.Text + ", began " + duration.HumanDuration(time.Since(r.Since.Time)) + " ago"
}

// evidence describes what was observed. It leaves out what the message has.
func (r *Rollout) evidence() (lines []string) {
	if r.Compared > 0 {
		lines = append(lines, "in the stage Shadow, both revisions decided pods of "+words.Many(r.Compared, "owner"))
	}
	for i := range r.Evidence {
		if e := &r.Evidence[i]; !strings.Contains(r.Message, e.Text) {
			lines = append(lines, string(e.MetricName)+": "+e.Text)
		}
	}
	return lines
}

// printIn prints the roll-out in the status of profiles, nothing if none is under way and none was
// aborted.
func (r *Rollout) printIn(w io.Writer, profile string) {
	if r == nil || r.Phase == v1alpha1.RolloutHealthy {
		return
	}
	t := terminal.Of(w)
	_, _ = fmt.Fprintln(t)
	t.Entry("", "  ", t.Bold("schedulerprofile/"+profile)+" "+r.headline())
	for _, line := range r.lines() {
		t.Entry("  ", "    ", line)
	}
}

// headline returns the stage, the step and the weight.
func (r *Rollout) headline() string {
	if r.Phase == v1alpha1.RolloutDegraded {
		return fmt.Sprintf("aborted the roll-out of revision %s: %s, and revision %s decides all pods",
			r.CanaryRevision, r.Phase, r.StableRevision)
	}
	text := fmt.Sprintf("rolls out revision %s: %s, stage %s", r.CanaryRevision, r.Phase, r.Stage)
	present, all := 0, 0
	for _, step := range r.Steps {
		if step.Stage != rollout.Canary {
			continue
		}
		if all++; step.State == StepPresent {
			present = all
		}
	}
	if present > 0 {
		text += fmt.Sprintf(", step %d of %d", present, all)
	}
	return text + fmt.Sprintf(", %d %% of owners", r.Weight)
}

// lines describe what the roll-out waits for, and what was observed.
func (r *Rollout) lines() (lines []string) {
	if r.underWay() && r.Message != "" { // the message of an aborted one is in the problems of the profile
		lines = append(lines, r.Message)
	}
	if r.counted() {
		lines = append(lines, revisionLine(r.CanaryRevision, r.CanaryOwners, r.CanaryDecision),
			revisionLine(r.StableRevision, r.StableOwners, r.StableDecision))
	}
	return append(lines, r.evidence()...)
}

// revisionLine describes the owners with one revision.
func revisionLine(revision string, owners int64, decision *metav1.Duration) string {
	text := "revision " + revision + ": " + words.Many(owners, "owner")
	if decision != nil {
		text += ", " + decisionTime(decision) + " for a decision in the median"
	}
	return text
}
