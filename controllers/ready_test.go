// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// summarized returns the two conditions with those that sum them up, which are new at the time now.
func summarized(generation int64, accepted, programmed metav1.Condition) []metav1.Condition {
	conditions := []metav1.Condition{accepted, programmed}
	summarize(&conditions, generation, now)
	return conditions
}

func TestReadyAndStalledSumUpTheOtherConditions(t *testing.T) {
	accepted := conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, longAgo)
	programmed := conditionAt("Programmed", "True", "Programmed", "Revision two of generation 2 is active", 2, longAgo)
	refused := func(reason string) metav1.Condition {
		return conditionAt("Accepted", "False", reason, "spec.x: no", 2, longAgo)
	}
	kept := conditionAt("Programmed", "False", "KeptLastGood", "revision one stays active", 2, longAgo)
	ready := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return conditionAt("Ready", status, reason, message, 2, now)
	}
	stalled := func(reason string) metav1.Condition {
		return conditionAt("Stalled", "True", reason, "spec.x: no", 2, now)
	}
	waits := func(reason string) []metav1.Condition {
		return []metav1.Condition{ready("False", reason, "spec.x: no; revision one stays active")}
	}
	stands := func(reason string) []metav1.Condition {
		return append(waits(reason), stalled(reason))
	}
	for name, test := range map[string]struct {
		accepted, programmed metav1.Condition
		want                 []metav1.Condition
	}{
		"active": {accepted, programmed,
			[]metav1.Condition{ready("True", "Programmed", programmed.Message)}},
		"still being built": {accepted,
			conditionAt("Programmed", "Unknown", "Pending", "is still being built", 2, longAgo),
			[]metav1.Condition{ready("False", "Pending", "is still being built")}},
		"built again until it is": {accepted,
			conditionAt("Programmed", "False", "BuildFailed", "no licence", 2, longAgo),
			[]metav1.Condition{ready("False", "BuildFailed", "no licence")}},
		"stored again until it is": {accepted,
			conditionAt("Programmed", "False", "NotStored", "not stored", 2, longAgo),
			[]metav1.Condition{ready("False", "NotStored", "not stored")}},
		"invalid":                    {refused("Invalid"), kept, stands("Invalid")},
		"an unknown plugin":          {refused("UnknownPlugin"), kept, stands("UnknownPlugin")},
		"invalid arguments":          {refused("InvalidArgs"), kept, stands("InvalidArgs")},
		"a host that is not allowed": {refused("ExtenderHostNotAllowed"), kept, stands("ExtenderHostNotAllowed")},
		"a name that is taken":       {refused("SchedulerNameConflict"), kept, stands("SchedulerNameConflict")},
		"another order of the queue": {refused("QueueSortConflict"), kept, stands("QueueSortConflict")},
		"a policy to come":           {refused("PolicyNotFound"), kept, waits("PolicyNotFound")},
		"a policy to be mended":      {refused("PolicyNotAccepted"), kept, waits("PolicyNotAccepted")},
		"a Secret to come":           {refused("SecretNotFound"), kept, waits("SecretNotFound")},
		"a Secret to be granted":     {refused("SecretNotReadable"), kept, waits("SecretNotReadable")},
		"a Secret to be filled":      {refused("InvalidSecret"), kept, waits("InvalidSecret")},
		"a Secret to be labelled":    {refused("SecretNotPermitted"), kept, waits("SecretNotPermitted")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, summarized(2, test.accepted, test.programmed)[2:]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadyAndStalledFollowTheOtherConditions(t *testing.T) {
	conditions := []metav1.Condition{
		conditionAt("Accepted", "False", "Invalid", "spec.x: no", 2, longAgo),
		conditionAt("Programmed", "False", "Invalid", "no last good generation can run", 2, longAgo),
	}
	summarize(&conditions, 2, earlier)
	setCondition(&conditions, 3, now, conditionAt("Accepted", "True", "Accepted", "The spec is valid", 3, now))
	setCondition(&conditions, 3, now, conditionAt("Programmed", "Unknown", "Pending", "is still being built", 3, now))
	summarize(&conditions, 3, now)
	want := []metav1.Condition{
		conditionAt("Accepted", "True", "Accepted", "The spec is valid", 3, now),
		conditionAt("Programmed", "Unknown", "Pending", "is still being built", 3, now),
		conditionAt("Ready", "False", "Pending", "is still being built", 3, earlier),
	}
	if diff := cmp.Diff(want, conditions); diff != "" {
		t.Error(diff)
	}
	if got := notes(nil, conditions); len(got) != 1 || got[0].reason != "Pending" {
		t.Errorf("Events for Ready, which repeats another condition: %v", got)
	}
	summarize(&conditions, 3, now.Add(time.Hour))
	if diff := cmp.Diff(want, conditions); diff != "" {
		t.Errorf("it changes when summed up again: %s", diff)
	}
}
