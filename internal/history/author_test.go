// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// managed returns an entry of managed fields, written some seconds after the start.
func managed(manager, subresource, fields string, seconds int64) metav1.ManagedFieldsEntry {
	at := metav1.Unix(seconds, 0)
	return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: &at,
		FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestTheLastManagerOfTheSpecChangedIt(t *testing.T) {
	const spec, labels = `{"f:spec":{"f:schedulerName":{}}}`, `{"f:metadata":{"f:labels":{}}}`
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"nobody": {nil, ""},
		"one":    {[]metav1.ManagedFieldsEntry{managed("kubectl", "", spec, 1)}, "kubectl"},
		"the later of two": {[]metav1.ManagedFieldsEntry{managed("argocd", "", spec, 2),
			managed("kubectl", "", spec, 1)}, "argocd"},
		"labels and status later": {[]metav1.ManagedFieldsEntry{managed("kubectl", "", spec, 1),
			managed("tagger", "", labels, 2), managed("livesched", "status", spec, 3)}, "kubectl"},
		"nothing that can be read": {[]metav1.ManagedFieldsEntry{
			managed("a", "", "{", 1), {Manager: "b", FieldsV1: metav1.NewFieldsV1(spec)},
			{Manager: "c", Time: &metav1.Time{}},
		}, ""},
	} {
		if got := lastManager(test.entries); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestAnActivationHasACauseOfLimitedLength(t *testing.T) {
	object := &v1alpha1.SchedulerProfile{}
	object.Annotations = map[string]string{AnnotationChangeCause: strings.Repeat("why ", 1000)}
	object.ManagedFields = []metav1.ManagedFieldsEntry{managed("kubectl", "", `{"f:spec":{}}`, 1)}
	now := time.Unix(7, 0)
	got := ActivationOf(object, now)
	if len(got.Cause) > maxCause || !strings.HasPrefix(got.Cause, "why why") || got.By != "kubectl" ||
		!got.Since.Equal(now) {
		t.Errorf("%+v", got)
	}
}

func TestARevisionThatIsActiveAgainHasTheNewActivation(t *testing.T) {
	have := []Revision{ran(t, 1, 1, "ha", `percentageOfNodesToScore: 1`, nil),
		ran(t, 2, 2, "hb", `percentageOfNodesToScore: 2`, nil)}
	have[0].Activation = Activation{Since: time.Unix(1, 0), By: "first", Cause: "begin"}
	have[1].Activation = Activation{Since: time.Unix(2, 0), By: "second"}
	want := ran(t, 0, 3, "ha", `percentageOfNodesToScore: 1`, nil)
	want.Activation = Activation{Since: time.Unix(3, 0), By: "third"}
	got, err := plan(have, &want, true)
	if err != nil || got.update == nil || got.update.Activation != want.Activation {
		t.Errorf("%v, %+v", err, got.update)
	}

	want = ran(t, 0, 3, "hb", `percentageOfNodesToScore: 2`, nil) // another generation of the same
	want.Activation = Activation{Since: time.Unix(3, 0), By: "third"}
	got, err = plan(have, &want, true)
	if err != nil || got.update == nil || got.update.Activation != have[1].Activation {
		t.Errorf("%v, %+v", err, got.update)
	}
}
