// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	schedpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// naiveWindow walks as upstream does, and takes nodes whose results are not known for candidates
// that violate no budget.
func naiveWindow(results []*dryRun, from int, wanted int32) (length int) {
	safe, all := int32(0), int32(0)
	for ; length < len(results) && (safe == 0 || all < wanted); length++ {
		switch result := results[(from+length)%len(results)]; {
		case result == nil, result.victims != nil && result.merit.violations == 0:
			safe, all = safe+1, all+1
		case result.victims != nil:
			all++
		}
	}
	return length
}

// randomResult returns a result with victims, one without, or nil. There are few different ones, so
// that many are equal.
func randomResult(r *rand.Rand) (*dryRun, *extenderv1.Victims) {
	switch r.IntN(6) {
	case 0:
		return nil, nil
	case 1, 2:
		return &dryRun{status: fwk.NewStatus(fwk.Unschedulable)}, nil
	}
	victims := &extenderv1.Victims{NumPDBViolations: int64(max(0, r.IntN(4)-1))}
	for range 1 + r.IntN(2) {
		victims.Pods = append(victims.Pods, &corev1.Pod{Spec: corev1.PodSpec{Priority: new(int32(r.IntN(4) - 2))},
			Status: corev1.PodStatus{StartTime: &metav1.Time{Time: time.Unix(int64(r.IntN(3)), 0)}}})
	}
	slices.SortFunc(victims.Pods, func(a, b *corev1.Pod) int { return int(*b.Spec.Priority - *a.Spec.Priority) })
	if r.IntN(8) == 0 { // of a group that is more important than its pods
		slices.Reverse(victims.Pods)
	}
	return &dryRun{victims: refsTo(victims.Pods), merit: meritOf(victims)}, victims
}

// TestRingMatchesAWalk changes results at random, and compares the window and the best candidate in
// it with what a walk over the nodes finds, and with what upstream selects.
func TestRingMatchesAWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(20261127, 0))
	evaluator := &schedpreemption.Evaluator{Interface: &defaultpreemption.DefaultPreemption{}}
	chosen, whole, waiting := 0, 0, 0
	for round := range 300 {
		var ring ring
		n := 1 + r.IntN(40)
		results, victims := make([]*dryRun, n), make([]*extenderv1.Victims, n)
		for i := range results {
			results[i], victims[i] = randomResult(r)
		}
		ring.reset(slices.Clone(results))
		for step := range 60 {
			i := r.IntN(n)
			results[i], victims[i] = randomResult(r)
			ring.set(i, results[i])
			from, wanted := r.IntN(n), int32(r.IntN(n+2))
			where := fmt.Sprintf("round %d, step %d, %d nodes, from %d, wanted %d", round, step, n, from, wanted)
			length := ring.window(from, wanted)
			if want := naiveWindow(results, from, wanted); length != want {
				t.Fatalf("%s: the window has %d nodes, want %d", where, length, want)
			}
			var unknown []int
			var found []schedpreemption.Candidate
			best := none
			for looked := range length {
				at := (from + looked) % n
				switch {
				case results[at] == nil:
					unknown = append(unknown, at)
				case results[at].victims != nil:
					found = append(found, candidate{fmt.Sprint(at), victims[at]})
					if best == none || results[at].merit.compare(&results[best].merit) < 0 {
						best = at
					}
				}
			}
			if got := ring.unknownIn(from, length); !slices.Equal(got, unknown) {
				t.Fatalf("%s: unknown are %v, want %v", where, got, unknown)
			}
			got := ring.bestIn(from, length)
			if got != best {
				t.Fatalf("%s: the best is %d, want %d", where, got, best)
			}
			if len(unknown) > 0 {
				waiting++
			}
			if length == n {
				whole++
			}
			if best == none {
				continue
			}
			chosen++
			want := meritOf(evaluator.SelectCandidate(context.Background(), found).Victims())
			if results[got].merit.compare(&want) != 0 {
				t.Fatalf("%s: the best has %+v, upstream selects %+v", where, results[got].merit, want)
			}
		}
	}
	if chosen < 10_000 || whole < 1000 || waiting < 1000 {
		t.Errorf("%d windows had a best candidate, %d all nodes, %d unknown ones", chosen, whole, waiting)
	}
}
