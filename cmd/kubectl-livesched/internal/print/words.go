// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/suggest"
)

// None is the output for a missing value.
const None = "-"

// sentence returns a text with a capital at its beginning, unless the first word is a name, and a
// full stop at its end.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if word, _, _ := strings.Cut(text, " "); size > 0 && !strings.ContainsAny(word, "./:=\"-_0123456789") {
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// change is a kind of change in the cluster. It has words for an addition or removal, for
// other changes, and for both.
type change struct {
	resources               []string
	removal                 bool // the first of words is for removals, not for additions
	first, others, together string
}

// changes are what pods wait for, in the order in which they are listed.
var changes = []change{
	{[]string{"Node"}, false, "a node is added", "a node changes", "a node is added or changes"},
	{[]string{"Pod", "AssignedPod", "UnscheduledPod"}, true, "a pod ends", "a pod changes", "a pod ends or changes"},
	{[]string{"PersistentVolumeClaim", "PersistentVolume"}, false, "a claim or volume is added",
		"a claim or volume changes", "a claim or volume changes"},
	{
		[]string{"storage.k8s.io/StorageClass", "storage.k8s.io/CSINode", "storage.k8s.io/CSIDriver",
			"storage.k8s.io/CSIStorageCapacity", "storage.k8s.io/VolumeAttachment"},
		false, "storage changes", "storage changes", "storage changes",
	},
	{
		[]string{"resource.k8s.io/ResourceClaim", "resource.k8s.io/ResourceSlice", "resource.k8s.io/DeviceClass"},
		false, "a device or its claim changes", "a device or its claim changes", "a device or its claim changes",
	},
	{[]string{"scheduling.k8s.io/PodGroup"}, false, "its PodGroup changes", "its PodGroup changes",
		"its PodGroup changes"},
	{[]string{"TargetPod"}, false, "the pod itself changes", "the pod itself changes", "the pod itself changes"},
	{[]string{"*"}, false, "anything in the cluster changes", "anything in the cluster changes",
		"anything in the cluster changes"},
}

// eventWords describes events without the names that the scheduling framework has for them.
func eventWords(events []v1alpha1.EventAwaited) []string {
	var texts []string
	var known []string
	for i := range changes {
		c := &changes[i]
		known = append(known, c.resources...)
		var first, others bool
		for _, e := range events {
			resource, action := cutEvent(e.Event)
			switch {
			case !slices.Contains(c.resources, resource):
			case action == "All":
				first, others = true, true
			case c.removal && action == "Delete", !c.removal && action == "Add":
				first = true
			default:
				others = true
			}
		}
		switch {
		case first && others:
			texts = append(texts, c.together)
		case first:
			texts = append(texts, c.first)
		case others:
			texts = append(texts, c.others)
		}
	}
	for _, e := range events {
		resource, _ := cutEvent(e.Event)
		if text := "a " + resource + " changes"; !slices.Contains(known, resource) && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// cutEvent returns the resource, which may have a group, and the action of an event.
func cutEvent(event string) (resource, action string) {
	at := strings.LastIndexByte(event, '/')
	if at < 0 {
		return event, ""
	}
	return event[:at], event[at+1:]
}

// triedAgain describes when the pod is tried again. It is "" if only a change of the pod leads to
// that.
func triedAgain(verdict v1alpha1.Verdict, p *v1alpha1.PendingExplanation, now time.Time) string {
	if verdict == v1alpha1.VerdictBinding || verdict == v1alpha1.VerdictNoProfile ||
		verdict == v1alpha1.VerdictOtherScheduler {
		return ""
	}
	gated := verdict == v1alpha1.VerdictGated
	when := suggest.OneOf(eventWords(p.WaitsFor))
	due := ""
	if !p.NextTry.IsZero() && !gated {
		due = "now"
		if in := p.NextTry.Sub(now); in > 0 {
			due = "in " + duration.HumanDuration(in)
		}
	}
	switch {
	case when != "" && gated:
		return "Looked at again when " + when + "."
	case when != "" && due != "":
		return "Tried again when " + when + "; at the latest " + due + "."
	case when != "":
		return "Tried again when " + when + "."
	case due != "":
		return "Tried again at the latest " + due + "."
	}
	return ""
}

// eventsLine lists events by their names, grouped by their plugins.
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
