// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"testing"
)

// TestAForkDoesNotShowATrial forks in the middle of a trial: the copy has the cluster as it is
// without the trial.
func TestAForkDoesNotShowATrial(t *testing.T) {
	f := newFixture(t, newNode("n", ""))
	victim, confirmed := newPod("victim", "n"), newPod("confirmed", "n")
	f.must(f.AddPod(quiet, victim))
	f.assume(newPod("binding", "n"))
	before := f.Changes()
	names := func(c *Cache) (pods []string) {
		t.Helper()
		copied := NewSnapshot()
		f.must(c.UpdateSnapshot(quiet, copied))
		nodes, err := copied.NodeInfos().List()
		f.must(err)
		for _, n := range nodes {
			for _, p := range n.GetPods() {
				pods = append(pods, p.GetPod().Name)
			}
		}
		slices.Sort(pods)
		return pods
	}

	f.BeginTrial()
	f.Hide(victim)
	f.assume(newPod("member", "n"))
	f.assume(confirmed)
	f.assume(newPod("alone", "gone")) // its node was deleted
	if got := names(f.Cache); !slices.Equal(got, []string{"binding", "confirmed", "member"}) {
		t.Errorf("the trial has %v", got)
	}
	fork := f.Fork()
	if got := names(fork); !slices.Equal(got, []string{"binding", "victim"}) {
		t.Errorf("the fork has %v", got)
	}
	if size := fork.Size(); size.Pods != 2 || size.AssumedPods != 1 || fork.Changes() != before || fork.nodes["gone"] != nil {
		t.Errorf("the fork has the size %+v, and %d changes instead of %d", size, fork.Changes(), before)
	}

	f.must(f.AddPod(quiet, confirmed))
	if fork := f.Fork(); fork.Changes() != before+1 || !slices.Equal(names(fork), []string{"binding", "confirmed", "victim"}) {
		t.Errorf("after a pod of the trial was confirmed: %v, %d changes instead of %d", names(fork), fork.Changes(), before+1)
	}
}
