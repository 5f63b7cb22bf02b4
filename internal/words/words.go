// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package words has the words for explanations, so that the command line and the dashboard say the
// same.
package words

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Grouped formats numbers with a comma after each three digits.
var Grouped = message.NewPrinter(language.English)

// Many returns a number, with a comma after each three digits, and its noun in the singular or
// plural, such as "1 error" or "1,200 policies".
func Many[N int | int32 | int64](n N, noun string) string {
	switch stem, endsInY := strings.CutSuffix(noun, "y"); {
	case n == 1:
	case endsInY:
		noun = stem + "ies"
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return Grouped.Sprintf("%d ", n) + noun
}

// headlines are what the verdicts mean.
var headlines = map[v1alpha1.Verdict]string{
	v1alpha1.VerdictNeverFits:         "no node fits",
	v1alpha1.VerdictFitsWhenFreed:     "no node can take it now",
	v1alpha1.VerdictGroupDoesNotFit:   "its pod group does not fit",
	v1alpha1.VerdictWaitingForTurn:    "it fits, and waits for its turn",
	v1alpha1.VerdictWaitingForVictims: "it waits until preempted pods have ended",
	v1alpha1.VerdictBinding:           "it is being bound to its node",
	v1alpha1.VerdictGated:             "it is held back, and not tried",
	v1alpha1.VerdictNoProfile:         "no profile schedules it",
	v1alpha1.VerdictOtherScheduler:    "another scheduler is responsible",
	v1alpha1.VerdictUnknown:           "livesched could not find out why",
	v1alpha1.VerdictBound:             "it is on a node",
}

// Headline returns what a verdict means. A verdict of a newer livesched stands
// for itself.
func Headline(e *v1alpha1.PodExplanation) string {
	text, known := headlines[e.Verdict]
	switch {
	case !known:
		return string(e.Verdict)
	case e.Nodes > 0 && (e.Verdict == v1alpha1.VerdictNeverFits || e.Verdict == v1alpha1.VerdictFitsWhenFreed):
		return text + " (of " + Grouped.Sprintf("%d", e.Nodes) + ")"
	}
	return text
}

// Refusal returns why a plugin refuses a pod: the detail and what is short, or else the words of
// the plugin.
func Refusal(r *v1alpha1.Refusal) string {
	var texts []string
	if r.Detail != "" {
		texts = append(texts, r.Detail)
	}
	for i := range r.ShortBy {
		s := &r.ShortBy[i]
		if !strings.Contains(r.Detail, "no "+s.Resource+" (") {
			texts = append(texts, Shortage(s))
		}
	}
	switch {
	case len(texts) > 0:
		return strings.Join(texts, ", ")
	case len(r.Messages) > 0:
		return strings.TrimSuffix(r.Messages[0], ".")
	default:
		return "refused by the plugin " + r.Plugin
	}
}

// Shortage returns what nodes lack.
func Shortage(s *v1alpha1.Shortage) string {
	if s.Most == nil {
		return "lacks " + amount(s.Resource, s.Quantity.String())
	}
	return fmt.Sprintf("lacks at least %s (%s), at most %s", amount(s.Resource, s.Quantity.String()),
		Many(s.Nodes, "node"), s.Most.String())
}

func amount(resource, quantity string) string {
	if resource == "pods" {
		return "room for " + quantity + " more pods"
	}
	return quantity + " " + resource
}

// Suggestion describes a change, and how many of the pods that wait for the same reason it lets
// run, which are alike besides the explained one.
func Suggestion(s *v1alpha1.Suggestion, alike int32) string {
	all := alike + 1
	switch {
	case s.Fits == 0 || alike == 0:
		return s.Description
	case s.Fits >= all:
		return s.Description + Grouped.Sprintf(" All %d pods that wait for the same reason would run.", all)
	case s.Fits >= mostFits:
		return s.Description + Grouped.Sprintf(" At least %d of the %d pods that wait for the same reason would run.",
			s.Fits, all)
	}
	return s.Description + Grouped.Sprintf(" %d of the %d pods that wait for the same reason would run.", s.Fits, all)
}

// mostFits is how many pods livesched counts at most.
const mostFits = 500

// WhyNot returns why the nodes of a group refuse the pod.
func WhyNot(g *v1alpha1.NodeGroup) string {
	var texts []string
	for i := range g.Refusals {
		if text := Refusal(&g.Refusals[i]); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if g.Partial {
		if len(texts) == 0 {
			return "various reasons"
		}
		texts = append(texts, "and other reasons on some of them")
	}
	return strings.Join(texts, "; ")
}

// PodGroup describes how many pods of a group, or groups of a composite group, fit and, if domains
// is set, how many in each domain that was tried.
func PodGroup(g *v1alpha1.PodGroupFit, domains bool) string {
	verb := "fit"
	if g.Fit == 1 {
		verb = "fits"
	}
	kind := "Pod group"
	if g.Composite {
		kind = "Composite pod group"
	}
	line := fmt.Sprintf("%s %s: %s must be placed together, and %s %s now", kind, g.Name, Many(g.Needed, MemberOf(g)),
		Grouped.Sprintf("%d", g.Fit), verb)
	if g.Domain != "" {
		line += " in " + g.Domain
	}
	if g.Ready == 1 {
		line += "; 1 is ready."
	} else {
		line += Grouped.Sprintf("; %d are ready.", g.Ready)
	}
	if domains && len(g.Tried) > 1 {
		var tried []string
		for _, d := range g.Tried {
			tried = append(tried, Grouped.Sprintf("%d in ", d.Fit)+cmp.Or(d.Domain, "the cluster"))
		}
		line += " Tried: " + strings.Join(tried, ", ") + "."
	}
	if g.Incomplete {
		line += " The time was up: more may fit."
	}
	return line
}

// MemberOf returns what the numbers of a group count.
func MemberOf(g *v1alpha1.PodGroupFit) string {
	if g.Composite {
		return "group"
	}
	return "pod"
}

var (
	// inOtherColumns is the beginning of a message.
	inOtherColumns = regexp.MustCompile(`^(\d+/\d+ nodes are available: |pod group \S+: )`)
	// inVain is the end of a message about preemption that does not help. A livesched with the
	// plugins of an older version also says that there are no claims to deallocate.
	inVain = regexp.MustCompile(`;?( no new claims to deallocate,)? preemption: \d+/\d+ nodes .*$`)
)

// ShortReason returns the message of a decision without what other columns say, and without why
// preemption does not help.
func ShortReason(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	message = inVain.ReplaceAllString(inOtherColumns.ReplaceAllString(message, ""), "")
	return strings.TrimSuffix(message, ".")
}
