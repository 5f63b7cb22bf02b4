// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/truncate"
)

const (
	// maxEventNote is what the API server takes in the note of an Event, in bytes.
	maxEventNote = 1024
	// maxConditionMessage is less than it takes in the message of a condition. Nobody reads more.
	maxConditionMessage = 8 * 1024
)

// note is an Event to be.
type note struct{ eventType, reason, action, text string }

// notes says what is new in the conditions of an object. That a spec is valid is none: that it
// decides is. That another spec is refused for the same reason is news, too.
func notes(before, after []metav1.Condition) []note {
	var all []note
	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		known := was != nil && was.Status == c.Status && was.Reason == c.Reason && was.Message == c.Message &&
			(c.Status == metav1.ConditionTrue || was.ObservedGeneration == c.ObservedGeneration)
		if known || c.Type == v1alpha1.ConditionAccepted && c.Status == metav1.ConditionTrue {
			continue
		}
		n := note{eventType: corev1.EventTypeWarning, reason: c.Reason, action: actions[c.Type], text: truncate.ToBytes(c.Message, maxEventNote)}
		if c.Status == metav1.ConditionTrue {
			n.eventType = corev1.EventTypeNormal
		}
		all = append(all, n)
	}
	return all
}

// profileNotes are the notes on a profile. That a revision decides is told as what happened: which
// one it took over from.
func profileNotes(before, after *v1alpha1.SchedulerProfileStatus) []note {
	all := notes(before.Conditions, after.Conditions)
	for i := range all {
		if all[i].reason == v1alpha1.ReasonProgrammed && before.Active != nil && after.Active != nil {
			all[i].text = truncate.ToBytes(takeover(before.Active, after.Active), maxEventNote)
		}
	}
	return all
}

// takeover tells of a change of what decides.
func takeover(before, after *v1alpha1.ActiveProfile) string {
	if before.Revision == after.Revision {
		return fmt.Sprintf("Generation %d changes nothing that decides: revision %s goes on", after.Generation, after.Revision)
	}
	text := fmt.Sprintf("Revision %s of generation %d took over from %s", after.Revision, after.Generation, before.Revision)
	if before.Generation != after.Generation {
		text += fmt.Sprintf(" of generation %d", before.Generation)
	}
	switch {
	case equality.Semantic.DeepEqual(before.Policy, after.Policy):
		return text
	case after.Policy == nil:
		return text + ", now on the built-in defaults"
	default:
		return text + fmt.Sprintf(", now on generation %d of SchedulingPolicy %q", after.Policy.Generation, after.Policy.Name)
	}
}

// actions are what livesched did, or failed to do, when a condition changed.
var actions = map[string]string{
	v1alpha1.ConditionAccepted:   "Accept",
	v1alpha1.ConditionProgrammed: "Program",
}
