// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/rollout/evidence"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// instance returns an instance that is not built.
func instance(isCanary bool) *profile.Instance {
	return &profile.Instance{Queue: &queue.ProfileSettings{},
		Config: &resolve.Profile{Name: "p", SchedulerName: "p", Canary: isCanary, Revision: "r"}}
}

func TestWatch(t *testing.T) {
	stable, canary := instance(false), instance(true)
	var current *profile.Map
	w := NewWatch(func() *profile.Map { return current }, nil)
	present := 0
	share := func(canary *profile.Instance, owners int) {
		present = owners
		instances := map[string]*profile.Instance{"p": stable}
		if canary != nil {
			instances["canary/p"] = canary
		}
		current = profile.NewMap(instances, "").WithShares(map[string]profile.Share{"p": {Owners: owners}})
		w.Prune()
	}
	note := func(p *profile.Instance, owner string, failed ...rollout.Metric) {
		pod := &corev1.Pod{}
		pod.UID = types.UID(owner)
		took := time.Duration(len(owner)) * time.Millisecond
		w.Note(Decided{Profile: p, Pod: pod, Share: present, Took: took, Failed: failed})
	}
	expect := func(what string, want *rollout.Observed) {
		t.Helper()
		if diff := cmp.Diff(want, w.Observed("p", "r")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", what, diff)
		}
	}
	nothing := &rollout.Observed{}

	share(nil, 0)
	note(stable, "early")
	expect("without a canary nothing is observed", nothing)

	share(canary, queue.Whole/20)
	note(stable, "a")
	note(stable, "a", rollout.Unschedulable)
	note(stable, "a", rollout.Unschedulable, rollout.Preempting)
	note(canary, "bb", rollout.Unschedulable)
	note(canary, "ccc")
	note(instance(false), "of another revision", rollout.Unschedulable)
	share(canary, queue.Whole/2)
	note(canary, "a", rollout.Unschedulable) // it counts once, also with the other revision
	note(canary, "ccc", rollout.Unschedulable)
	expect("owners that failed are counted once, with the share at that time", &rollout.Observed{
		Stable: 1, New: 3, StableTime: time.Millisecond, NewTime: 3 * time.Millisecond,
		Owners: map[rollout.Metric]*evidence.Owners{
			rollout.Unschedulable: {New: 2, Failed: map[float64]int{0.05: 2, 0.5: 1}},
			rollout.Preempting:    {Failed: map[float64]int{0.05: 1}},
		},
	})

	share(canary, queue.Whole)
	note(canary, "late", rollout.Unschedulable)
	seen := w.Observed("p", "r")
	if owners := seen.Owners[rollout.Unschedulable]; seen.New != 4 || owners.Failed[1] != 1 {
		t.Errorf("the canary has all pods, and %+v is counted", seen)
	}
	next := instance(true)
	share(next, queue.Whole/2)
	expect("another canary begins anew", nothing)
	note(next, "a", rollout.Unschedulable)
	if seen := w.Observed("p", "r"); seen.New != 1 || seen.Stable != 0 {
		t.Errorf("counted %+v", seen)
	}
	share(nil, 0)
	note(stable, "a")
	expect("it is gone", nothing)
	if len(w.counts) != 0 {
		t.Errorf("%d canaries are remembered", len(w.counts))
	}
}
