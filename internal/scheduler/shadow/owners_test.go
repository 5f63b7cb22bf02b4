// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"testing"

	"github.com/livesched/livesched/internal/rollout/evidence"
)

func TestAnOwnerCountsWithItsFirstDifference(t *testing.T) {
	var o owners
	for _, decision := range []struct {
		owner string
		verdict
	}{
		{"a", agreed}, {"a", nodeRefused}, {"a", activeOnlyFits}, {"a", shadowOnlyFits}, {"a", activeOnlyFits},
		{"b", shadowOnlyFits}, {"b", activeOnlyFits},
		{"c", nodeScoredLower}, {"c", agreed},
		{"d", activeOnlyFits},
	} {
		o.add(decision.owner, decision.verdict)
	}
	if want := (evidence.Paired{Differing: 3, Against: 2}); o.paired != want || len(o.differs) != 4 {
		t.Errorf("%+v of %d owners, want %+v of 4", o.paired, len(o.differs), want)
	}
}
