// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

func TestEventsReportWhatIsNewInTheConditions(t *testing.T) {
	acceptedTrue := conditionAt("Accepted", "True", "Accepted", "The spec is valid", 1, longAgo)
	acceptedFalse := conditionAt("Accepted", "False", "UnknownPlugin", "spec.x: unknown plugin", 2, earlier)
	programmedTrue := conditionAt("Programmed", "True", "Programmed", "Revision one of generation 1 is active", 1,
		longAgo)
	programmedFalse := conditionAt("Programmed", "False", "KeptLastGood", "revision one of generation 1 stays active",
		2, earlier)
	rejected := note{"Warning", "UnknownPlugin", "Accept", "spec.x: unknown plugin"}
	decides := note{"Normal", "Programmed", "Program", "Revision one of generation 1 is active"}
	goesOn := note{"Warning", "KeptLastGood", "Program", "revision one of generation 1 stays active"}

	for _, test := range []struct {
		name          string
		before, after []metav1.Condition
		want          []note
	}{
		{"a profile that comes to decide", nil, []metav1.Condition{acceptedTrue, programmedTrue}, []note{decides}},
		{"one that is refused from the beginning", nil, []metav1.Condition{acceptedFalse, programmedFalse},
			[]note{rejected, goesOn}},
		{"one that is refused later", []metav1.Condition{acceptedTrue, programmedTrue},
			[]metav1.Condition{acceptedFalse, programmedFalse}, []note{rejected, goesOn}},
		{"one that is mended", []metav1.Condition{acceptedFalse, programmedFalse},
			[]metav1.Condition{acceptedTrue, programmedTrue}, []note{decides}},
		{"another reason for the same status", []metav1.Condition{acceptedFalse},
			[]metav1.Condition{conditionAt("Accepted", "False", "InvalidArgs", "spec.y: no", 2, earlier)},
			[]note{{"Warning", "InvalidArgs", "Accept", "spec.y: no"}}},
		{"another message for the same reason", []metav1.Condition{programmedTrue},
			[]metav1.Condition{conditionAt("Programmed", "True", "Programmed", "Revision two of generation 2 is active",
				2, longAgo)}, []note{{"Normal", "Programmed", "Program", "Revision two of generation 2 is active"}}},
		{"another spec that is refused for the same reason", []metav1.Condition{acceptedFalse},
			[]metav1.Condition{conditionAt("Accepted", "False", "UnknownPlugin", "spec.x: unknown plugin", 3, earlier)},
			[]note{rejected}},
		{"nothing but another generation", []metav1.Condition{programmedTrue},
			[]metav1.Condition{conditionAt("Programmed", "True", "Programmed", "Revision one of generation 1 is active",
				2, longAgo)}, nil},
		{"a roll-out that is taken back",
			[]metav1.Condition{acceptedTrue, conditionAt("Programmed", "Unknown", "RollingOut", "in steps", 2, earlier)},
			[]metav1.Condition{acceptedTrue, conditionAt("Programmed", "False", "RolloutAborted", "taken back", 2, earlier)},
			[]note{{"Warning", "RolloutAborted", "Program", "taken back"}}},
		{"a roll-out that begins", []metav1.Condition{acceptedTrue, programmedTrue},
			[]metav1.Condition{acceptedTrue, conditionAt("Programmed", "Unknown", "RollingOut", "in steps", 2, earlier)},
			[]note{{"Normal", "RollingOut", "Program", "in steps"}}},
		{"nothing at all", []metav1.Condition{acceptedTrue, programmedTrue},
			[]metav1.Condition{acceptedTrue, programmedTrue}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, notes(test.before, test.after), cmp.AllowUnexported(note{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnEventOnAProfileNamesTheRevisionThatWasReplaced(t *testing.T) {
	on := func(name string, generation int64) *v1alpha1.ActivePolicy {
		return &v1alpha1.ActivePolicy{Name: name, Generation: generation}
	}
	status := func(active *v1alpha1.ActiveProfile) *v1alpha1.SchedulerProfileStatus {
		s := &v1alpha1.SchedulerProfileStatus{Active: active}
		if active != nil {
			text := fmt.Sprintf("Revision %s of generation %d is active", active.Revision, active.Generation)
			s.Conditions = []metav1.Condition{conditionAt("Programmed", "True", "Programmed", text, active.Generation,
				longAgo)}
		}
		return s
	}
	for _, test := range []struct {
		name          string
		before, after *v1alpha1.ActiveProfile
		want          string
	}{
		{"the first", nil, &v1alpha1.ActiveProfile{Generation: 1, Revision: "one"},
			"Revision one of generation 1 is active"},
		{"another spec", &v1alpha1.ActiveProfile{Generation: 1, Revision: "one"},
			&v1alpha1.ActiveProfile{Generation: 3, Revision: "two"},
			"Revision two of generation 3 replaced one of generation 1"},
		{"a spec that says the same", &v1alpha1.ActiveProfile{Generation: 1, Revision: "one"},
			&v1alpha1.ActiveProfile{Generation: 2, Revision: "one"},
			"Generation 2 does not change the resolved configuration: revision one stays active"},
		{"another generation of the policy",
			&v1alpha1.ActiveProfile{Generation: 1, Revision: "one", Policy: on("q", 1)},
			&v1alpha1.ActiveProfile{Generation: 1, Revision: "two", Policy: on("q", 2)},
			`Revision two of generation 1 replaced one, with generation 2 of SchedulingPolicy "q"`},
		{"another policy", &v1alpha1.ActiveProfile{Generation: 1, Revision: "one"},
			&v1alpha1.ActiveProfile{Generation: 2, Revision: "two", Policy: on("q", 2)},
			`Revision two of generation 2 replaced one of generation 1, with generation 2 of SchedulingPolicy "q"`},
		{"no policy any more", &v1alpha1.ActiveProfile{Generation: 1, Revision: "one", Policy: on("default", 2)},
			&v1alpha1.ActiveProfile{Generation: 1, Revision: "two"},
			`Revision two of generation 1 replaced one, with the built-in defaults`},
		{"another version of livesched, or of a Secret", &v1alpha1.ActiveProfile{Generation: 1, Revision: "one"},
			&v1alpha1.ActiveProfile{Generation: 1, Revision: "two"}, "Revision two of generation 1 replaced one"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := []note{{"Normal", "Programmed", "Program", test.want}}
			if diff := cmp.Diff(want, profileNotes(status(test.before), status(test.after)),
				cmp.AllowUnexported(note{})); diff != "" {
				t.Error(diff)
			}
			if again := profileNotes(status(test.after), status(test.after)); again != nil {
				t.Errorf("told again: %v", again)
			}
		})
	}
}

func TestTheNoteOfAnEventIsBounded(t *testing.T) {
	if got := notes(nil, []metav1.Condition{conditionAt("Programmed", "False", "BuildFailed", strings.Repeat("x", 5000),
		1, now)}); len(got[0].text) != maxEventNote {
		t.Errorf("the note of an Event has %d bytes", len(got[0].text))
	}
}
