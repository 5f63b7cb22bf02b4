// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/truncate"
)

const (
	// maxEventNote is the API server's limit for the note of an Event, in bytes.
	maxEventNote = 1024
	// maxConditionMessage is less than the API server's limit for the message of a condition, which
	// is longer than anyone reads.
	maxConditionMessage = 8 * 1024
)

// note is an Event that is to be recorded.
type note struct{ eventType, reason, action, text string }

// notes returns the Events for the changes in the conditions of an object. A spec that is valid
// gets none until it runs or is rolled out. Another spec that is rejected for the same reason gets
// one, too. Ready and Stalled repeat the other conditions, so they get none.
func notes(before, after []metav1.Condition) []note {
	var all []note
	for _, c := range after {
		if actions[c.Type] == "" {
			continue
		}
		was := meta.FindStatusCondition(before, c.Type)
		known := was != nil && was.Status == c.Status && was.Reason == c.Reason && was.Message == c.Message &&
			(c.Status == metav1.ConditionTrue || was.ObservedGeneration == c.ObservedGeneration)
		if known || c.Type == v1alpha1.ConditionAccepted && c.Status == metav1.ConditionTrue {
			continue
		}
		n := note{eventType: corev1.EventTypeWarning, reason: c.Reason, action: actions[c.Type],
			text: truncate.ToBytes(c.Message, maxEventNote)}
		if c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonRollingOut {
			n.eventType = corev1.EventTypeNormal
		}
		all = append(all, n)
	}
	return all
}

// profileNotes returns the Events for a profile. The Event for a new active revision names the one
// that it replaced.
func profileNotes(before, after *v1alpha1.SchedulerProfileStatus) []note {
	all := append(notes(before.Conditions, after.Conditions), shadowNotes(before.Shadow, after.Shadow)...)
	for i := range all {
		switch n := &all[i]; {
		case n.reason != v1alpha1.ReasonProgrammed:
		case strings.HasSuffix(n.text, kubeSchedulerWarning):
			n.eventType, n.reason = corev1.EventTypeWarning, v1alpha1.ReasonKubeSchedulerRuns
		case before.Active != nil && after.Active != nil && !sameGeneration(before.Active, after.Active):
			n.text = truncate.ToBytes(replacement(before.Active, after.Active), maxEventNote)
		}
	}
	return all
}

// sameGeneration reports whether the condition changed although the same thing is active.
func sameGeneration(before, after *v1alpha1.ActiveProfile) bool {
	return before.Revision == after.Revision && before.Generation == after.Generation &&
		equality.Semantic.DeepEqual(before.Policy, after.Policy)
}

// replacement describes a change of the active revision.
func replacement(before, after *v1alpha1.ActiveProfile) string {
	if before.Revision == after.Revision {
		return fmt.Sprintf("Generation %d does not change the resolved configuration: revision %s stays active",
			after.Generation, after.Revision)
	}
	text := fmt.Sprintf("Revision %s of generation %d replaced %s", after.Revision, after.Generation, before.Revision)
	if before.Generation != after.Generation {
		text += fmt.Sprintf(" of generation %d", before.Generation)
	}
	switch {
	case equality.Semantic.DeepEqual(before.Policy, after.Policy):
		return text
	case after.Policy == nil:
		return text + ", with the built-in defaults"
	default:
		return text + fmt.Sprintf(", with generation %d of SchedulingPolicy %q", after.Policy.Generation,
			after.Policy.Name)
	}
}

// actions are the actions of Events, by the type of the condition that changed.
var actions = map[string]string{
	v1alpha1.ConditionAccepted:   "Accept",
	v1alpha1.ConditionProgrammed: "Program",
}
