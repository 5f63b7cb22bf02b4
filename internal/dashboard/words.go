// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// grouped formats numbers with a comma after each three digits.
var grouped = message.NewPrinter(language.English)

// hiddenNode stands for the name of a node that the user may not see.
const hiddenNode = "(hidden)"

// many returns a number and its noun, in the singular or plural.
func many[N int | int32 | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return grouped.Sprintf("%d ", n) + noun
}

// verb returns the verb for a number of things.
func verb[N int | int32 | int64](n N, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}

// age returns how long ago something was, in at most two units.
func age(of time.Time) string {
	if of.IsZero() {
		return "unknown"
	}
	return span(time.Since(of))
}

// span returns a duration, in at most two units.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// milliseconds returns a duration that is measured.
func milliseconds(d *metav1.Duration) string {
	switch {
	case d == nil:
		return "–"
	case d.Duration < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d.Duration < 10*time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// rate returns how often something happens in a second.
func rate(perSecond float64) string {
	if perSecond >= 100 {
		return grouped.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.1f", perSecond)
}

// headlines are what the verdicts mean.
var headlines = map[v1alpha1.Verdict]string{
	v1alpha1.VerdictNeverFits:         "No node fits",
	v1alpha1.VerdictFitsWhenFreed:     "No node can take it now",
	v1alpha1.VerdictGroupDoesNotFit:   "Its pod group does not fit",
	v1alpha1.VerdictWaitingForTurn:    "It fits, and waits for its turn",
	v1alpha1.VerdictWaitingForVictims: "It waits until preempted pods have ended",
	v1alpha1.VerdictBinding:           "It is being bound to its node",
	v1alpha1.VerdictGated:             "It is held back, and not tried",
	v1alpha1.VerdictNoProfile:         "No profile schedules it",
	v1alpha1.VerdictOtherScheduler:    "Another scheduler is responsible",
	v1alpha1.VerdictUnknown:           "livesched could not find out why",
	v1alpha1.VerdictBound:             "It is on a node",
}

// headline returns what the verdict means. A verdict of a newer livesched stands for itself.
func headline(e *v1alpha1.PodExplanation) string {
	text := cmp.Or(headlines[e.Verdict], string(e.Verdict))
	if e.Nodes > 0 && (e.Verdict == v1alpha1.VerdictNeverFits || e.Verdict == v1alpha1.VerdictFitsWhenFreed) {
		text += grouped.Sprintf(" (of %d)", e.Nodes)
	}
	return text
}

// refusalWords returns why a plugin refuses a pod: the detail and what is short, or else the words
// of the plugin.
func refusalWords(r *v1alpha1.Refusal) string {
	var texts []string
	if r.Detail != "" {
		texts = append(texts, r.Detail)
	}
	for i := range r.ShortBy {
		if s := &r.ShortBy[i]; !strings.Contains(r.Detail, "no "+s.Resource+" (") {
			texts = append(texts, shortageWords(s))
		}
	}
	switch {
	case len(texts) > 0:
		return strings.Join(texts, ", ")
	case len(r.Messages) > 0:
		return strings.TrimSuffix(r.Messages[0], ".")
	}
	return "refused by the plugin " + r.Plugin
}

// shortageWords returns what nodes lack.
func shortageWords(s *v1alpha1.Shortage) string {
	short := s.Quantity.String() + " " + s.Resource
	if s.Resource == "pods" {
		short = "room for " + s.Quantity.String() + " more pods"
	}
	if s.Most == nil {
		return "lacks " + short
	}
	return fmt.Sprintf("lacks at least %s (%s), at most %s", short, many(s.Nodes, "node"), s.Most.String())
}

// whyNot returns why the nodes of a group refuse the pod.
func whyNot(g *v1alpha1.NodeGroup) string {
	var texts []string
	for i := range g.Refusals {
		if text := refusalWords(&g.Refusals[i]); !slices.Contains(texts, text) {
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

var (
	// inOtherColumns is the beginning of a message.
	inOtherColumns = regexp.MustCompile(`^(\d+/\d+ nodes are available: |pod group \S+: )`)
	// inVain is the end of a message about preemption that does not help.
	inVain = regexp.MustCompile(`;?( no new claims to deallocate,)? preemption: \d+/\d+ nodes .*$`)
)

// shortReason returns a message without what other columns say, and without why preemption does not
// help.
func shortReason(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	message = inVain.ReplaceAllString(inOtherColumns.ReplaceAllString(message, ""), "")
	return strings.TrimSuffix(message, ".")
}

// resultClass returns the style of a result.
func resultClass(r v1alpha1.DecisionResult) string {
	switch r {
	case v1alpha1.DecisionUnschedulable:
		return "warn"
	case v1alpha1.DecisionFailed, v1alpha1.DecisionBindFailed:
		return "bad"
	}
	return "good"
}
