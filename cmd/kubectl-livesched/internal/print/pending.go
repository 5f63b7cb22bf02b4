// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/words"
)

// NodesHidden is printed where the names of nodes would be.
const NodesHidden = "Node names are hidden: you may not list nodes."

// Explanation prints an explanation for people: what keeps the pod pending, what helps, why,
// and when it is tried again. The wide one has everything.
func Explanation(w io.Writer, e *v1alpha1.PodExplanation, now time.Time, wide bool) error {
	switch {
	case e.Node != nil:
		return printNode(w, e, wide)
	case e.Bound != nil:
		return printBound(w, e, now, wide)
	}
	p := e.Pending
	if p == nil {
		p = &v1alpha1.PendingExplanation{}
	}
	Line(w, pendingHeadline(w, e, p, now))
	if wide {
		writeItem(w, "Verdict "+string(e.Verdict)+"; "+profileOf(e)+conditionWords(p)+".")
	}
	if p.PodGroup != nil && e.Verdict == v1alpha1.VerdictGroupDoesNotFit {
		writeItem(w, words.PodGroup(p.PodGroup, true))
	}
	if e.Message != "" {
		writeItem(w, e.Message)
	}
	printHeld(w, e, p, now)
	printPodRefusals(w, e.Message, p.PodRefusals, wide)
	if p.PodGroup != nil && e.Verdict != v1alpha1.VerdictGroupDoesNotFit {
		writeItem(w, words.PodGroup(p.PodGroup, true))
	}
	Suggestions(w, p.Suggestions, p.Alike)
	if err := NodeGroups(w, p.Groups, wide); err != nil {
		return err
	}
	if p.Alike > 0 {
		writeItem(w, alikeLine(p.Alike))
	}
	if wide && len(p.WaitsFor) > 0 {
		writeItem(w, "Waits for: "+eventsLine(p.WaitsFor))
	}
	if text := triedAgain(e.Verdict, p, now); text != "" {
		writeItem(w, text)
	}
	return nil
}

// pendingHeadline returns the first line.
func pendingHeadline(w io.Writer, e *v1alpha1.PodExplanation, p *v1alpha1.PendingExplanation, now time.Time) string {
	line := terminal.Of(w).Bold(nameOf(e))
	if p.Since.IsZero() {
		line += " is pending"
	} else {
		line += " has been pending for " + duration.HumanDuration(now.Sub(p.Since.Time))
	}
	line += ": " + words.Headline(e)
	if by := attemptWords(e, p); by != "" {
		line += ". " + sentence(by)
	} else {
		line += "."
	}
	return line
}

// attemptWords names the profile and the number of attempts.
func attemptWords(e *v1alpha1.PodExplanation, p *v1alpha1.PendingExplanation) string {
	by := ""
	if e.Profile != "" {
		by = "Profile " + e.Profile
	}
	if p.Attempts > 0 {
		by += words.Grouped.Sprintf(", attempt %d", p.Attempts)
	}
	return strings.TrimPrefix(by, ", ")
}

// conditionWords returns the details that are only in wide output.
func conditionWords(p *v1alpha1.PendingExplanation) string {
	text := ""
	if p.Place != "" {
		text += "; in the queue: " + p.Place
	}
	if p.Reason != "" {
		text += "; condition PodScheduled: " + p.Reason
		if p.Message != "" {
			text += ", " + strings.TrimSuffix(p.Message, ".")
		}
	}
	return text
}

// nameOf returns the namespace and the name of the pod.
func nameOf(e *v1alpha1.PodExplanation) string {
	switch {
	case e.Metadata.Name == "":
		return "The pod"
	case e.Metadata.Namespace == "":
		return e.Metadata.Name
	}
	return e.Metadata.Namespace + "/" + e.Metadata.Name
}

// profileOf names the profile with its revision, or the scheduler name if it has no profile.
func profileOf(e *v1alpha1.PodExplanation) string {
	switch {
	case e.Profile == "":
		return "scheduler name " + e.SchedulerName
	case e.Revision == "":
		return "profile " + e.Profile
	default:
		return "profile " + e.Profile + "@" + e.Revision
	}
}

// maxVictims limits the pods that are listed.
const maxVictims = 5

// printPodRefusals prints what refuses the pod on every node, as far as the message does not have
// it. Several plugins may give one reason. The wide output names each.
func printPodRefusals(w io.Writer, message string, refusals []v1alpha1.Refusal, wide bool) {
	printed := []string{}
	for i := range refusals {
		r := &refusals[i]
		text := words.Refusal(r)
		switch {
		case wide:
			writeItem(w, fmt.Sprintf("The pod itself: %s (%s, %s).", text, r.Plugin, r.Reason))
		case !strings.Contains(message, text) && !slices.Contains(printed, text):
			printed = append(printed, text)
			writeItem(w, "The pod itself: "+text+".")
		}
	}
}

// printHeld prints the gates and the other pods that the pod waits for, as far as the message does
// not have them.
func printHeld(w io.Writer, e *v1alpha1.PodExplanation, p *v1alpha1.PendingExplanation, now time.Time) {
	if len(p.Gates) > 0 && !strings.Contains(e.Message, p.Gates[0]) {
		writeItem(w, "Scheduling gates: "+strings.Join(p.Gates, ", ")+".")
	}
	if p.GatingMessage != "" && len(p.Gates) == 0 &&
		!strings.Contains(e.Message, strings.TrimSuffix(p.GatingMessage, ".")) {
		writeItem(w, sentence(p.GatingMessage))
	}
	if p.NominatedNode != "" {
		writeItem(w, "Its node will be "+p.NominatedNode+".")
	}
	for i := range p.Victims {
		if i == maxVictims {
			writeItem(w, "- "+words.Many(len(p.Victims)-i, "more pod"))
			break
		}
		v := &p.Victims[i]
		text := v.Namespace + "/" + v.Name
		if !v.TerminatingSince.IsZero() {
			text += ", terminating for " + duration.HumanDuration(now.Sub(v.TerminatingSince.Time))
		}
		if len(v.Finalizers) > 0 {
			text += ", held by the finalizers " + strings.Join(v.Finalizers, ", ")
		}
		terminal.Of(w).Paragraph("  - ", "    ", text)
	}
}

func alikeLine(alike int32) string {
	if alike == 1 {
		return "1 other pod waits for the same reason."
	}
	return words.Many(alike, "other pod") + " wait for the same reason."
}

// Suggestions prints what helps. What livesched has tried comes first. So many other pods wait for
// the same reason.
func Suggestions(w io.Writer, suggestions []v1alpha1.Suggestion, alike int32) {
	for _, verified := range []bool{true, false} {
		title := "Would help, each tried in a copy of the cluster:"
		if !verified {
			title = "Might help, not tried:"
		}
		for i := range suggestions {
			if suggestions[i].Verified != verified {
				continue
			}
			if title != "" {
				writeItem(w, title)
				title = ""
			}
			terminal.Of(w).Paragraph("    - ", "      ", words.Suggestion(&suggestions[i], alike))
		}
	}
}
