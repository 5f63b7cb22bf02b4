// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// TestSharesAreThoseOfOwners draws owners whose names differ little.
func TestSharesAreThoseOfOwners(t *testing.T) {
	const owners = 20_000
	for _, salt := range []string{"", "a", "b"} {
		took := map[string]bool{}
		for percent := 1; percent < 100; percent += 7 {
			canary, taken := Canary{Share: percent * Whole / 100, Salt: salt}, 0
			for i := range owners {
				owner := fmt.Sprint("owner-", i)
				takes := canary.Takes(owner)
				if takes {
					taken++
				}
				if took[owner] && !takes {
					t.Fatalf("an owner loses the canary when the share grows to %d %%", percent)
				}
				took[owner] = takes
			}
			if share := 100 * float64(taken) / owners; math.Abs(share-float64(percent)) > 2 {
				t.Errorf("salt %q: %.1f %% of owners get a canary of %d %%", salt, share, percent)
			}
		}
	}
	if (Canary{Share: 0}).Takes("x") || !(Canary{Share: Whole}).Takes("x") {
		t.Error("a share of nothing or all is not")
	}
}

func TestPodsOfAnOwnerGetOneProfile(t *testing.T) {
	stable, canary := profileOf(), profileOf()
	settings := func(share int) *Settings {
		return &Settings{Profiles: map[string]*ProfileSettings{"default": stable},
			Canaries: map[string]Canary{"default": {Settings: canary, Share: share, Salt: "s"}}}
	}
	f := newFixture(t)
	f.Reconfigure(logger, settings(Whole/2), nil)
	by := map[string]*ProfileSettings{}
	for i := range 200 {
		pod := newPod(fmt.Sprint("p", i), controlledBy(fmt.Sprint("c", i%20)))
		f.Add(logger, pod)
		popped := f.Pop(logger)
		owner := popped.Pod.Pod.OwnerReferences[0].Name
		if before := by[owner]; before != nil && before != popped.Settings {
			t.Fatalf("the pods of %s are decided by two profiles", owner)
		}
		by[owner] = popped.Settings
		f.Done(popped.Pod.Pod.UID)
	}
	counts := map[*ProfileSettings]int{}
	for _, p := range by {
		counts[p]++
	}
	if counts[stable] < 3 || counts[canary] < 3 {
		t.Errorf("%d and %d of 20 owners", counts[stable], counts[canary])
	}
}

// TestWaitingPodsFollowTheShare refuses a pod by one profile, and gives it to the other one.
func TestWaitingPodsFollowTheShare(t *testing.T) {
	stable, canary := profileOf(), profileOf()
	f := newFixture(t)
	share := func(owners int) {
		f.Reconfigure(logger, &Settings{Profiles: map[string]*ProfileSettings{"default": stable},
			Canaries: map[string]Canary{"default": {Settings: canary, Share: owners}}}, nil)
	}
	expect := func(what string, want *ProfileSettings) {
		t.Helper()
		popped := f.Pop(logger)
		if popped.Settings != want {
			t.Errorf("%s: decided by another profile", what)
		}
		if all := popped.Share == Whole; all != (want == canary) {
			t.Errorf("%s: popped with a share of %d", what, popped.Share)
		}
		f.giveBack(popped.Pod, []string{"A"}, nil)
	}
	f.Reconfigure(logger, &Settings{Profiles: map[string]*ProfileSettings{"default": stable}}, nil)
	f.Add(logger, newPod("pod", func(pod *corev1.Pod) { pod.UID = "pod" }))
	expect("without a canary", stable)
	share(0)
	f.Expect(f.Counts().Unschedulable).To(Equal(1), "a canary without a share changes nothing")
	share(Whole)
	expect("with a canary", canary)
	share(0)
	expect("with a share that shrank", stable)
	share(Whole)
	popped := f.Pop(logger)
	share(0)
	f.giveBack(popped.Pod, []string{"A"}, nil)
	expect("after the share shrank while it was in flight", stable)
}
