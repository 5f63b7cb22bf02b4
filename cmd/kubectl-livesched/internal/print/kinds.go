// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
)

// Kind are pending pods that are alike. The explanation is about the first one.
type Kind struct {
	Namespace, Name, Owner string
	Pods                   int
	Since                  time.Time // of the oldest
	Explanation            *v1alpha1.PodExplanation
}

// Kinds are kinds of pods with their explanations.
type Kinds struct {
	Explained []*Kind
	// Others are the pods of other schedulers, and Left the pods of kinds that are not explained.
	Others, Left, LeftKinds int
	Schedulers              []string // of others
}

// Explanations prints the explanation of one pod of each kind.
func Explanations(w io.Writer, x *Kinds, now time.Time, wide bool) error {
	for i, kind := range x.Explained {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		if kind.Pods > 1 {
			Line(w, words.Many(kind.Pods, "pending pod")+" of "+kind.Owner+", for example:")
		}
		if err := Explanation(w, kind.Explanation, now, wide); err != nil {
			return err
		}
	}
	printOthers(w, x)
	return nil
}

// Summary prints a line for each kind of pending pod. The text where is the place of the pods.
func Summary(w io.Writer, x *Kinds, where string, now time.Time, namespaces, wide bool) error {
	if len(x.Explained) > 0 {
		pods := 0
		profiles := map[string]bool{}
		for _, kind := range x.Explained {
			pods += kind.Pods
			profiles[kind.Explanation.Profile] = true
		}
		title := words.Many(pods, "pending pod") + " " + where
		if len(x.Explained) > 1 {
			title += ", of " + words.Many(len(x.Explained), "kind")
		}
		withProfile := wide || len(profiles) > 1
		if only := x.Explained[0].Explanation.Profile; !withProfile && only != "" {
			title += "; profile " + only
		}
		Line(w, title+".")
		header, rows := summaryTable(x, now, namespaces, withProfile)
		if err := Table(w, header, rows); err != nil {
			return err
		}
		first := x.Explained[0]
		Line(w, fmt.Sprintf("More of each: kubectl livesched explain %s -n %s", first.Owner, first.Namespace))
	}
	printOthers(w, x)
	return nil
}

func printOthers(w io.Writer, x *Kinds) {
	if x.Others > 0 {
		Line(w, words.Many(x.Others, "pending pod")+" of other schedulers: "+strings.Join(x.Schedulers, ", ")+".")
	}
	if x.Left > 0 {
		Line(w, "Not explained: "+words.Many(x.Left, "pending pod")+" of "+words.Many(x.LeftKinds, "more kind")+".")
	}
}

func summaryTable(x *Kinds, now time.Time, namespaces, profile bool) (header []string, rows [][]string) {
	row := func(pods, namespace, owner, since, profileName, why string) (cells []string) {
		cells = []string{pods, owner, since, why}
		if profile {
			cells = slices.Insert(cells, 3, profileName)
		}
		if namespaces {
			cells = slices.Insert(cells, 1, namespace)
		}
		return cells
	}
	for _, kind := range x.Explained {
		rows = append(rows, row(words.Grouped.Sprintf("%d", kind.Pods), kind.Namespace, kind.Owner,
			duration.HumanDuration(now.Sub(kind.Since)),
			cmp.Or(kind.Explanation.Profile, None), whyPhrase(kind.Explanation)))
	}
	return row("PODS", "NAMESPACE", "OF", "SINCE", "PROFILE", "WHY"), rows
}

// whyPhrase describes in a phrase why a pod is pending, and what would help.
func whyPhrase(e *v1alpha1.PodExplanation) string {
	text := words.Headline(e)
	if p := e.Pending; p != nil {
		switch {
		case len(p.PodRefusals) > 0:
			text += ": " + words.Refusal(&p.PodRefusals[0])
		case p.PodGroup != nil && e.Verdict == v1alpha1.VerdictGroupDoesNotFit:
			text += words.Grouped.Sprintf(": %d of the %d %ss that must be placed together fit", p.PodGroup.Fit,
				p.PodGroup.Needed, words.MemberOf(p.PodGroup))
		case len(p.Gates) > 0:
			text += ": " + strings.Join(p.Gates, ", ")
		case p.GatingMessage != "":
			text += ": " + strings.TrimSuffix(p.GatingMessage, ".")
		case len(p.Groups) > 0:
			text += ": " + words.WhyNot(&p.Groups[0])
		}
		for i := range p.Suggestions {
			if p.Suggestions[i].Verified {
				return text + ". Would help: " + words.Suggestion(&p.Suggestions[i], p.Alike)
			}
		}
	}
	return text
}

// GroupPods are the numbers of pods of a PodGroup.
type GroupPods struct{ Total, OnNodes, Ended, Pending int }

// Group prints the explanations of the kinds of pods of a PodGroup.
func Group(w io.Writer, name string, pods GroupPods, x *Kinds, now time.Time, wide bool) error {
	states := []string{fmt.Sprintf("%d on nodes", pods.OnNodes), fmt.Sprintf("%d pending", pods.Pending)}
	if pods.Ended > 0 {
		states = append(states, fmt.Sprintf("%d ended", pods.Ended))
	}
	Line(w, fmt.Sprintf("Pod group %s has %s: %s.", name, words.Many(pods.Total, "pod"), strings.Join(states, ", ")))
	for _, kind := range x.Explained {
		_, _ = fmt.Fprintln(w)
		if more := kind.Pods - 1; more > 0 {
			Line(w, fmt.Sprintf("%s, and %s like it:", kind.Name, words.Many(more, "pod")))
		}
		if err := Explanation(w, kind.Explanation, now, wide); err != nil {
			return err
		}
	}
	if x.Left > 0 {
		_, _ = fmt.Fprintln(w)
		Line(w, fmt.Sprintf("Not explained: %s of other kinds.", words.Many(x.Left, "pod")))
	}
	return nil
}
