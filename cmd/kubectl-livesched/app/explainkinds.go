// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

// maxSummarized limits the kinds of pods that the command asks about.
const maxSummarized = 20

// podKind are pending pods of one owner that are alike. The first of them is explained for all.
type podKind struct {
	namespace, name, owner, scheduler string
	pods                              int
	since                             time.Time // of the oldest
}

// podKinds collects pending pods by their kind.
type podKinds map[string]*podKind

func (k podKinds) add(pod *corev1.Pod) {
	controller, owner := metav1.GetControllerOf(pod), ownerOf(pod)
	key := pod.Namespace + "\x00"
	if controller != nil {
		key += owner + "\x00"
	}
	if controller == nil || controller.Kind != "DaemonSet" { // whose pods each have an affinity of their own
		key += kindOf(pod)
	}
	created := pod.CreationTimestamp.Time
	kind := k[key]
	if kind == nil {
		kind = &podKind{namespace: pod.Namespace, name: pod.Name, owner: owner, scheduler: pod.Spec.SchedulerName, since: created}
		k[key] = kind
	}
	kind.pods++
	if comparePodNames(pod.Name, kind.name) < 0 {
		kind.name, kind.owner = pod.Name, owner
	}
	if created.Before(kind.since) {
		kind.since = created
	}
}

// sorted returns the kinds, those with the most pods first.
func (k podKinds) sorted() []*podKind {
	var kinds []*podKind
	for _, kind := range k {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b *podKind) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), cmp.Compare(a.namespace, b.namespace), comparePodNames(a.name, b.name))
	})
	return kinds
}

// ownerOf names what creates a pod: the Deployment of a ReplicaSet, another controller, or the pod.
func ownerOf(pod *corev1.Pod) string {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return "pod/" + pod.Name
	}
	if hash := pod.Labels["pod-template-hash"]; hash != "" && controller.Kind == "ReplicaSet" {
		if name, is := strings.CutSuffix(controller.Name, "-"+hash); is {
			return "deployment/" + name
		}
	}
	return strings.ToLower(controller.Kind) + "/" + controller.Name
}

// explainedKinds are kinds of pods with their explanations.
type explainedKinds struct {
	kinds        []*podKind // with an answer
	answers      []json.RawMessage
	explanations []*v1alpha1.PodExplanation
	// others are the pods of other schedulers, and left the pods of kinds that were not asked
	// about.
	others, left, leftKinds int
	schedulers              []string // of others
}

// explainKinds asks for one pod of each kind. Pods that are gone or on nodes by now are left out.
func (o *explainOptions) explainKinds(ctx context.Context, kinds []*podKind, limit int) (*explainedKinds, error) {
	x := &explainedKinds{}
	for _, kind := range kinds {
		switch {
		case slices.Contains(x.schedulers, kind.scheduler):
			x.others += kind.pods
			continue
		case len(x.kinds) == limit:
			x.left += kind.pods
			x.leftKinds++
			continue
		}
		answer, err := o.ask(ctx, kind.namespace, kind.name, nil)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		explanation := &v1alpha1.PodExplanation{}
		if err := json.Unmarshal(answer, explanation); err != nil {
			return nil, fmt.Errorf("reading the answer of livesched: %w", err)
		}
		switch {
		case explanation.Bound != nil:
			continue
		case explanation.Verdict == v1alpha1.VerdictOtherScheduler:
			x.others += kind.pods
			x.schedulers = append(x.schedulers, kind.scheduler)
			continue
		}
		x.kinds, x.answers, x.explanations = append(x.kinds, kind), append(x.answers, answer), append(x.explanations, explanation)
	}
	return x, nil
}

// printKinds prints the explanation of one pod of each kind.
func printKinds(w io.Writer, x *explainedKinds, now time.Time, wide bool) error {
	for i, kind := range x.kinds {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		if kind.pods > 1 {
			writeLine(w, print.Many(int32(kind.pods), "pending pod")+" of "+kind.owner+", for example:")
		}
		if err := print.Explanation(w, x.explanations[i], now, wide); err != nil {
			return err
		}
	}
	printOthers(w, x)
	return nil
}

// printSummary prints a line for each kind of pending pod. The text where says where they are.
func printSummary(w io.Writer, x *explainedKinds, where string, now time.Time, namespaces, wide bool) error {
	if len(x.kinds) > 0 {
		pods := 0
		profiles := map[string]bool{}
		for i, kind := range x.kinds {
			pods += kind.pods
			profiles[x.explanations[i].Profile] = true
		}
		title := print.Many(int32(pods), "pending pod") + " " + where
		if len(x.kinds) > 1 {
			title += ", of " + print.Many(int32(len(x.kinds)), "kind")
		}
		withProfile := wide || len(profiles) > 1
		if only := x.explanations[0].Profile; !withProfile && only != "" {
			title += "; profile " + only
		}
		writeLine(w, title+".")
		if err := writeTable(w, summaryHeader(namespaces, withProfile), summaryRows(x, now, namespaces, withProfile)); err != nil {
			return err
		}
		first := x.kinds[0]
		writeLine(w, fmt.Sprintf("More of each: kubectl livesched explain %s -n %s", first.owner, first.namespace))
	}
	printOthers(w, x)
	return nil
}

func printOthers(w io.Writer, x *explainedKinds) {
	if x.others > 0 {
		writeLine(w, print.Many(int32(x.others), "pending pod")+" of other schedulers: "+strings.Join(x.schedulers, ", ")+".")
	}
	if x.left > 0 {
		writeLine(w, "Not explained: "+print.Many(int32(x.left), "pending pod")+" of "+print.Many(int32(x.leftKinds), "more kind")+".")
	}
}

func summaryHeader(namespaces, profile bool) []string {
	header := []string{"PODS", "OF", "SINCE"}
	if namespaces {
		header = slices.Insert(header, 1, "NAMESPACE")
	}
	if profile {
		header = append(header, "PROFILE")
	}
	return append(header, "WHY")
}

func summaryRows(x *explainedKinds, now time.Time, namespaces, profile bool) (rows [][]string) {
	for i, kind := range x.kinds {
		e := x.explanations[i]
		row := []string{print.Grouped.Sprintf("%d", kind.pods), kind.owner, duration.HumanDuration(now.Sub(kind.since))}
		if namespaces {
			row = slices.Insert(row, 1, kind.namespace)
		}
		if profile {
			row = append(row, cmp.Or(e.Profile, print.None))
		}
		rows = append(rows, append(row, whyPhrase(e)))
	}
	return rows
}

// whyPhrase says in a phrase why a pod is pending, and what would help.
func whyPhrase(e *v1alpha1.PodExplanation) string {
	text := print.Headline(e)
	if p := e.Pending; p != nil {
		switch {
		case len(p.PodRefusals) > 0:
			text += ": " + print.RefusalWords(&p.PodRefusals[0])
		case p.PodGroup != nil && e.Verdict == v1alpha1.VerdictGroupDoesNotFit:
			text += print.Grouped.Sprintf(": %d of the %d pods that must be placed together fit", p.PodGroup.Fit, p.PodGroup.Needed)
		case len(p.Gates) > 0:
			text += ": " + strings.Join(p.Gates, ", ")
		case p.GatingMessage != "":
			text += ": " + strings.TrimSuffix(p.GatingMessage, ".")
		case len(p.Groups) > 0:
			text += ": " + print.WhyNot(&p.Groups[0])
		}
		for i := range p.Suggestions {
			if p.Suggestions[i].Verified {
				return text + ". Would help: " + p.Suggestions[i].Description
			}
		}
	}
	return text
}
