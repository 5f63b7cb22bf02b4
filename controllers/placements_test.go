// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestARollOutIsSimulatedOncePerStep(t *testing.T) {
	type answer struct {
		result *v1alpha1.RolloutPlacement
		err    error
	}
	asked, answers, done := make(chan string, 10), make(chan answer), make(chan struct{}, 10)
	p := newPlacements(func(_ context.Context, candidate *resolve.Profile,
		pods int) (*v1alpha1.RolloutPlacement, error) {
		asked <- candidate.Name
		if pods != 500 {
			t.Errorf("places %d pods", pods)
		}
		a := <-answers
		if errors.Is(a.err, errNoLicence) {
			panic(a.err)
		}
		return a.result, a.err
	}, func() { done <- struct{}{} })
	of := func(name, revision string, stage rollout.Stage, step int) *v1alpha1.RolloutPlacement {
		return p.of(t.Context(), &rolloutOf{candidate: &resolve.Profile{Name: name, UID: types.UID(name)},
			plan: &rollout.Plan{PlacementPods: 500}, canary: revision, state: rollout.State{Stage: stage, Step: step}})
	}
	expect := func(what string, got, want *v1alpha1.RolloutPlacement, simulated ...string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
		for _, name := range simulated {
			if of := <-asked; of != name {
				t.Errorf("%s: simulated %s, want %s", what, of, name)
			}
		}
		if len(asked) != 0 {
			t.Errorf("%s: simulated %s, too", what, <-asked)
		}
	}
	first, second := &v1alpha1.RolloutPlacement{Pods: 1}, &v1alpha1.RolloutPlacement{Pods: 2}

	expect("a roll-out begins", of("a", "r", rollout.Shadow, 0), nil, "a")
	expect("it is being simulated", of("a", "r", rollout.Shadow, 0), nil)
	expect("another one waits", of("b", "r", rollout.Shadow, 0), nil)
	answers <- answer{result: first}
	<-done
	expect("it was simulated", of("a", "r", rollout.Shadow, 0), first)
	expect("its next step begins", of("a", "r", rollout.Canary, 1), first, "a")
	answers <- answer{result: second}
	<-done
	expect("it was simulated again", of("a", "r", rollout.Canary, 1), second)
	expect("the other one begins", of("b", "r", rollout.Shadow, 0), nil, "b")
	answers <- answer{err: errors.New("sorry")}
	<-done
	expect("a failure is not repeated", of("b", "r", rollout.Shadow, 0), nil)
	expect("another revision begins anew", of("a", "s", rollout.Canary, 1), nil, "a")
	answers <- answer{err: errNoLicence}
	<-done
	expect("nor is a panic", of("a", "s", rollout.Canary, 1), nil)
	expect("an end is not simulated", of("a", "s", rollout.Aborted, 0), nil)
	none := &rolloutOf{candidate: &resolve.Profile{Name: "c", UID: "c"}, plan: &rollout.Plan{}, canary: "r"}
	expect("one without a simulation", p.of(t.Context(), none), nil)
	p.keep(rollouts{"a": {}})
	if len(p.latest) != 1 {
		t.Errorf("%d simulations are kept", len(p.latest))
	}
}
