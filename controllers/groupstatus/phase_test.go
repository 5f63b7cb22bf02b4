// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package groupstatus

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// membersIn returns a pod for each letter of phases: waiting, running, succeeded, failed, unknown.
func membersIn(phases string) (members []*member) {
	for i, letter := range phases {
		members = append(members, &member{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: fmt.Sprintf("p%d", i)},
			phase: map[rune]corev1.PodPhase{
				'w': corev1.PodPending, 'r': corev1.PodRunning, 's': corev1.PodSucceeded, 'f': corev1.PodFailed,
				'u': corev1.PodUnknown,
			}[letter],
		})
	}
	return members
}

func TestNextStatus(t *testing.T) {
	for _, test := range []struct {
		name      string
		before    status
		minMember int32
		pods      string
		want      status
	}{
		{"a new group", status{}, 3, "", status{Phase: pending}},
		{"too few pods", status{Phase: pending}, 3, "ww", status{Phase: pending}},
		{"too few pods, of which some run", status{Phase: pending}, 3, "rs",
			status{Phase: pending, Running: 1, Succeeded: 1}},
		{"enough pods", status{Phase: pending}, 3, "www", status{Phase: scheduling}},
		{"enough pods at once", status{}, 3, "wwww", status{Phase: scheduling}},
		{"too few of them run", status{Phase: scheduling}, 3, "rrww", status{Phase: scheduling, Running: 2}},
		{"pods of an unknown phase do not run", status{Phase: scheduling}, 3, "rru",
			status{Phase: scheduling, Running: 2}},
		{"enough run", status{Phase: scheduling}, 3, "rrrw", status{Phase: running, Running: 3}},
		{"enough run, when a leader begins", status{}, 3, "rrr", status{Phase: running, Running: 3}},
		{"those that have succeeded count", status{Phase: scheduling}, 3, "rss",
			status{Phase: running, Running: 1, Succeeded: 2}},
		{"one is replaced", status{Phase: running, Running: 3}, 3, "rrw", status{Phase: scheduling, Running: 2}},
		{"pods are deleted", status{Phase: running, Running: 3}, 3, "rr", status{Phase: pending, Running: 2}},
		{"all pods are deleted", status{Phase: running, Running: 3}, 3, "", status{Phase: pending}},
		{"fewer are needed now", status{Phase: scheduling}, 2, "rrww", status{Phase: running, Running: 2}},
		{"one has failed", status{Phase: running}, 3, "rrf", status{Phase: failed, Running: 2, Failed: 1}},
		{"one has failed, and enough run", status{Phase: running}, 3, "rrrf",
			status{Phase: failed, Running: 3, Failed: 1}},
		{"one has failed, and too few have begun", status{Phase: scheduling}, 3, "rfw",
			status{Phase: scheduling, Running: 1, Failed: 1}},
		{"enough have succeeded", status{Phase: running}, 3, "sssr", status{Phase: finished, Running: 1, Succeeded: 3}},
		{"enough have succeeded, and one has failed", status{Phase: running}, 3, "sssf",
			status{Phase: finished, Succeeded: 3, Failed: 1}},
		{"pods of a finished group are deleted", status{Phase: finished, Succeeded: 3}, 3, "s",
			status{Phase: finished, Succeeded: 3}},
		{"pods of a failed group succeed", status{Phase: failed, Running: 2, Failed: 1}, 3, "ssfs",
			status{Phase: failed, Succeeded: 3, Failed: 1}},
		{"pods of a failed group are deleted", status{Phase: failed, Running: 2, Failed: 1}, 3, "f",
			status{Phase: failed, Failed: 1}},
		{"the minimum is missing", status{}, 0, "", status{Phase: pending}},
		{"the minimum is missing, and there is a pod", status{}, 0, "w", status{Phase: scheduling}},
		{"a phase of another controller", status{Phase: "Unknown"}, 1, "r", status{Phase: running, Running: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.before.next(test.minMember, membersIn(test.pods))
			if got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
			if again := got.next(test.minMember, membersIn(test.pods)); again != got {
				t.Errorf("it does not rest: %+v, then %+v", got, again)
			}
		})
	}
}

func TestTheOwnersOfAGroup(t *testing.T) {
	pods := membersIn("www")
	pods[0].owners = []string{"train", "other"}
	pods[1].owners = []string{"later"}
	pods[0], pods[2] = pods[2], pods[0] // informers have no order
	for _, test := range []struct {
		name      string
		before    status
		minMember int32
		want      string
	}{
		{"complete", status{Phase: pending}, 3, "ml/other,ml/train"},
		{"complete again", status{Phase: pending, OccupiedBy: "ml/before"}, 3, "ml/other,ml/train"},
		{"complete before", status{Phase: scheduling, OccupiedBy: "ml/before"}, 3, "ml/before"},
		{"incomplete", status{Phase: pending}, 4, ""},
		{"incomplete again", status{Phase: running, OccupiedBy: "ml/before"}, 4, "ml/before"},
	} {
		if got := test.before.next(test.minMember, pods).OccupiedBy; got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	if got := (status{OccupiedBy: "ml/before"}).next(3, membersIn("www")).OccupiedBy; got != "ml/before" {
		t.Errorf("pods without owners: %q", got)
	}
}
