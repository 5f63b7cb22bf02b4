// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
)

// grouped formats numbers with a comma after each three digits.
var grouped = message.NewPrinter(language.English)

// printExplanation prints an explanation for people.
func printExplanation(w io.Writer, e *v1alpha1.PodExplanation, now time.Time) error {
	if e.Bound != nil {
		return printBound(w, e)
	}
	p := e.Pending
	if p == nil {
		p = &v1alpha1.PendingExplanation{}
	}
	writeLine(w, pendingSummary(e, p, now))
	writeLine(w, verdictLine(e))
	if p.NominatedNode != "" {
		writeLine(w, "Nominated node: "+p.NominatedNode)
	}
	switch {
	case len(p.Gates) > 0:
		writeLine(w, "Scheduling gates: "+strings.Join(p.Gates, ", "))
	case p.GatingPlugin != "":
		writeLine(w, "Gated by: "+p.GatingPlugin)
	}
	if len(p.Groups) > 0 {
		if err := writeTable(w, []string{"NODES", "POOL", "PLUGIN", "REASON", "SHORT BY"}, groupRows(p.Groups)); err != nil {
			return err
		}
	}
	if p.PodGroup != nil {
		writeLine(w, podGroupLine(p.PodGroup))
	}
	for i := range p.Suggestions {
		writeLine(w, suggestionLine(&p.Suggestions[i]))
	}
	if len(p.WaitsFor) > 0 {
		writeLine(w, "Waits for: "+eventsLine(p.WaitsFor))
	}
	if !p.NextTry.IsZero() {
		writeLine(w, "Next try: "+nextTry(p.NextTry.Sub(now)))
	}
	return nil
}

// pendingSummary returns the first line.
func pendingSummary(e *v1alpha1.PodExplanation, p *v1alpha1.PendingExplanation, now time.Time) string {
	state := "Pending"
	if !p.Since.IsZero() {
		state += " " + duration.HumanDuration(now.Sub(p.Since.Time))
	}
	if p.Reason != "" {
		state += ", " + p.Reason
	}
	if p.Attempts > 0 {
		state += fmt.Sprintf(", attempt %d", p.Attempts)
	}
	line := state + "; " + profileOf(e)
	if p.Alike > 0 {
		line += "; " + grouped.Sprintf("%d", p.Alike) + strings.TrimLeft(plural(int(p.Alike), "pod"), "0123456789") + " alike"
	}
	return line
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

func verdictLine(e *v1alpha1.PodExplanation) string {
	if e.Message == "" {
		return "Verdict: " + string(e.Verdict)
	}
	return fmt.Sprintf("Verdict: %s. %s", e.Verdict, e.Message)
}

// groupRows returns the rows of the groups of nodes, one for each plugin and shortage.
func groupRows(groups []v1alpha1.NodeGroup) (rows [][]string) {
	for _, g := range groups {
		nodes, pool := grouped.Sprintf("%d", g.Nodes), strings.Join(g.Pools, ", ")
		for i := range g.Refusals {
			r := &g.Refusals[i]
			plugin, reason := r.Plugin, string(r.Reason)
			for _, short := range shortages(r) {
				rows = append(rows, []string{nodes, pool, plugin, reason, short})
				nodes, pool, plugin, reason = "", "", "", "" // said once
			}
		}
	}
	return rows
}

// shortages says what is short. If nothing is, and livesched does not know the reason, it returns
// the plugin's own words.
func shortages(r *v1alpha1.Refusal) (texts []string) {
	for _, s := range r.ShortBy {
		on := "1 node"
		if s.Nodes != 1 {
			on = grouped.Sprintf("%d nodes", s.Nodes)
		}
		texts = append(texts, fmt.Sprintf("%s %s on %s", s.Quantity.String(), s.Resource, on))
	}
	if len(texts) == 0 && r.Reason == v1alpha1.ReasonRefused && len(r.Messages) > 0 {
		texts = append(texts, r.Messages[0])
	}
	if len(texts) == 0 {
		texts = append(texts, none)
	}
	return texts
}

// podGroupLine says how many pods of a group fit, and how many did in each domain.
func podGroupLine(g *v1alpha1.PodGroupFit) string {
	line := fmt.Sprintf("Pod group %s: %s must be placed together, and %s fit now", g.Name, plural(int(g.Needed), "pod"), grouped.Sprintf("%d", g.Fit))
	if g.Domain != "" {
		line += " in " + g.Domain
	}
	line += grouped.Sprintf("; %d are ready.", g.Ready)
	if len(g.Tried) > 1 {
		var tried []string
		for _, d := range g.Tried {
			tried = append(tried, grouped.Sprintf("%d in ", d.Fit)+cmp.Or(d.Domain, "the cluster"))
		}
		line += " Tried: " + strings.Join(tried, ", ") + "."
	}
	if g.Incomplete {
		line += " The time was up: more may fit."
	}
	return line
}

func suggestionLine(s *v1alpha1.Suggestion) string {
	if s.Verified {
		return "Would help (verified): " + s.Description
	}
	return "Might help: " + s.Description
}

// eventsLine lists events, those of the same plugins together.
func eventsLine(events []v1alpha1.EventAwaited) string {
	var plugins []string // in the order of their first event
	of := map[string][]string{}
	for _, e := range events {
		key := strings.Join(e.Plugins, ", ")
		if _, seen := of[key]; !seen {
			plugins = append(plugins, key)
		}
		of[key] = append(of[key], e.Event)
	}
	var texts []string
	for _, key := range plugins {
		text := strings.Join(of[key], ", ")
		if key != "" {
			text += " (" + key + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func nextTry(in time.Duration) string {
	if in <= 0 {
		return "now"
	}
	return "in " + duration.HumanDuration(in) + " at the latest"
}
