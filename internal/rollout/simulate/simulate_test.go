// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/livesched/livesched/internal/rollout"
)

func rolledOut(failsOld, failsNew float64) *Case {
	plan := &rollout.Plan{MinOwners: 3, Odds: 20, Measured: map[rollout.Metric]bool{rollout.Preempting: true},
		Steps: []rollout.Step{{Weight: 5}, {Pause: time.Hour}, {Weight: 50}, {Pause: time.Hour}}}
	return &Case{Plan: plan, Stable: failsOld, New: failsNew, Owners: 4000}
}

// TestHarmlessRevisionsAreSeldomAborted has failures that pods of one owner share: what counts are
// owners.
func TestHarmlessRevisionsAreSeldomAborted(t *testing.T) {
	const rollouts = 300
	for _, fails := range []float64{0, 0.02, 0.2, 0.9} {
		t.Run(fmt.Sprint("failing ", fails), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 0))
			ends := map[rollout.Stage]int{}
			for range rollouts {
				end, _ := rolledOut(fails, fails).Run(r)
				ends[end]++
			}
			t.Logf("%v", ends)
			if ends[rollout.Aborted] > rollouts/20 {
				t.Errorf("%d of %d harmless roll-outs were aborted", ends[rollout.Aborted], rollouts)
			}
			if ends[rollout.Promoted] < rollouts*9/10 {
				t.Errorf("only %d of %d were promoted", ends[rollout.Promoted], rollouts)
			}
		})
	}
}

func TestHarmfulRevisionsAreAbortedEarly(t *testing.T) {
	const rollouts = 300
	for _, test := range []struct {
		fails  float64
		median int // owners with the new revision until the roll-out is aborted, at most
	}{{1, 4}, {0.5, 6}, {0.2, 20}, {0.1, 70}} {
		t.Run(fmt.Sprint("failing ", test.fails), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(2, 0))
			var owners []int
			for range rollouts {
				end, n := rolledOut(0.02, test.fails).Run(r)
				if end != rollout.Aborted {
					n = 1 << 20
				}
				owners = append(owners, n)
			}
			slices.Sort(owners)
			t.Logf("median %d, 90 %% within %d", owners[rollouts/2], owners[rollouts*9/10])
			if owners[rollouts/2] > test.median {
				t.Errorf("the median is %d owners, want at most %d", owners[rollouts/2], test.median)
			}
		})
	}
}
