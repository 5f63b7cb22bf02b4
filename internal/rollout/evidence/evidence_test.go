// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestAllAgainst is about decisions that are all against the new revision.
func TestAllAgainst(t *testing.T) {
	for level, want := range map[float64]int{20: 7, 100: 9, 1000: 13} {
		n := 0
		for (Paired{n, n}).E() < level {
			n++
		}
		if n != want {
			t.Errorf("%d decisions reach %v, want %d", n, level, want)
		}
	}
}

// TestPairedIsAFairBet adds up all outcomes of so many fair coins: the mean is 1.
func TestPairedIsAFairBet(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 30, 200} {
		mean := 0.0
		for k := range n + 1 {
			mean += math.Exp(logChoose(n, k)-float64(n)*math.Ln2) * Paired{n, k}.E()
		}
		if math.Abs(mean-1) > 1e-9 {
			t.Errorf("%d decisions: the mean is %v", n, mean)
		}
	}
	if e := (Paired{100_000, 50_000}).E(); !(e > 0 && e < 0.1) {
		t.Errorf("as many for as against, of 100,000: %v", e)
	}
	if e := (Paired{100_000, 0}).E(); !(e < 1e-4) {
		t.Errorf("all for the new revision: %v", e)
	}
}

// TestOwnersIsAFairBet adds up all outcomes of owners that fail while the share grows: the mean
// is 1.
func TestOwnersIsAFairBet(t *testing.T) {
	shares := []float64{0.05, 0.05, 0.05, 0.2, 0.2, 0.5, 0.5, 0.5}
	mean := 0.0
	for outcome := range 1 << len(shares) {
		var o Owners
		p := 1.0
		for i, share := range shares {
			isNew := outcome>>i&1 == 1
			if o.Add(share, isNew); isNew {
				p *= share
			} else {
				p *= 1 - share
			}
		}
		mean += p * o.E()
	}
	if math.Abs(mean-1) > 1e-9 {
		t.Errorf("the mean is %v", mean)
	}
}

// TestPower finds out a revision that fails a part of its owners, while 2 % of the others fail,
// after so many owners with it, in most of some seeded runs.
func TestPower(t *testing.T) {
	for _, test := range []struct {
		share, fails float64
		atMost       int
	}{{0.05, 1, 3}, {0.05, 0.5, 6}, {0.05, 0.2, 25}, {0.2, 1, 5}, {0.2, 0.5, 10}} {
		random := rand.New(rand.NewPCG(1, 2))
		found := 0
		const runs = 400
		for range runs {
			if n := ownersUntil(random, test.share, test.fails, 0.02, 20, 10_000); n >= 0 && n <= test.atMost {
				found++
			}
		}
		if found < runs/2 {
			t.Errorf("share %v, %v of its owners fail: found after %d owners in %d of %d runs", test.share, test.fails,
				test.atMost, found, runs)
		}
	}
}

// TestFalseAlarms runs roll-outs of a revision that is as good as the old one.
func TestFalseAlarms(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	alarms := 0
	const runs = 1000
	for range runs {
		if ownersUntil(random, 0.05, 0.02, 0.02, 20, 4000) >= 0 {
			alarms++
		}
	}
	if alarms > runs/20 {
		t.Errorf("%d of %d harmless roll-outs raise an alarm", alarms, runs)
	}
}

// ownersUntil returns how many owners with the new revision there were when the e-value reached a
// level, of so many owners, or -1.
func ownersUntil(random *rand.Rand, share, newFails, oldFails, level float64, owners int) int {
	var o Owners
	withNew := 0
	for range owners {
		isNew, fails := random.Float64() < share, oldFails
		if isNew {
			withNew++
			fails = newFails
		}
		if random.Float64() < fails {
			if o.Add(share, isNew); o.E() >= level {
				return withNew
			}
		}
	}
	return -1
}
