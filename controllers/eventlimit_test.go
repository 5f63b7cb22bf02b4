// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/api/v1alpha1"
)

// recorded keeps the notes of Events.
type recorded []string

func (r *recorded) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	*r = append(*r, fmt.Sprintf(note, args...))
}

func TestAChangeEverySecondForAnHourDoesNotFloodTheClusterWithEvents(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	var got recorded
	recorder := LimitEvents(&got, clock)
	mine := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "one"}}
	for second := range 3600 {
		recorder.Eventf(mine, nil, corev1.EventTypeNormal, "Programmed", "Program", "change %d", second)
		clock.SetTime(clock.Now().Add(time.Second))
	}
	if len(got) != 25+11 {
		t.Errorf("%d Events in an hour, want 25 at once and one every five minutes", len(got))
	}
	for i, note := range got[:25] {
		if note != fmt.Sprintf("change %d", i) {
			t.Errorf("Event %d is %q", i, note)
		}
	}
	if got[25] != "change 300 (275 earlier Events were dropped)" ||
		got[26] != "change 600 (299 earlier Events were dropped)" {
		t.Errorf("then %q, %q", got[25], got[26])
	}

	// A warning on it, and a change of another object, are recorded nevertheless.
	before := len(got)
	recorder.Eventf(mine, nil, corev1.EventTypeWarning, "Invalid", "Accept", "100%% wrong")
	recorder.Eventf(&v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "two"}}, nil,
		corev1.EventTypeNormal, "Programmed", "Program", "%s", "created again")
	if rest := got[before:]; len(rest) != 2 || rest[0] != "100% wrong" || rest[1] != "created again" {
		t.Errorf("then %q", rest)
	}

	// The number of dropped Events fits into the note.
	for range 30 {
		recorder.Eventf(mine, nil, corev1.EventTypeWarning, "Invalid", "Accept", "%s", "wrong")
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	recorder.Eventf(mine, nil, corev1.EventTypeWarning, "Invalid", "Accept", "%s", strings.Repeat("x", maxEventNote))
	if last := got[len(got)-1]; len(last) != maxEventNote ||
		!strings.HasSuffix(last, "x ... (6 earlier Events were dropped)") {
		t.Errorf("%d bytes: %q", len(last), last)
	}
}
