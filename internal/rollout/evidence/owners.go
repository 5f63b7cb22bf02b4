// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"math"
	"slices"
)

// Owners counts the owners of pods that failed while a share of all owners had the new revision.
// The zero Owners has seen none.
//
// Who has which revision is decided by a hash, which knows nothing about the owner. So if both
// revisions fail equally often, an owner that fails has the new one with the probability of the
// share, whatever else makes owners fail, and whenever. Pods of one owner share their fate,
// which is why owners are counted, and not pods.
type Owners struct {
	// New is how many owners that failed had the new revision.
	New int
	// Failed are all owners that failed, by the share of owners that had the new revision at that
	// time: more than 0 and at most 1. Those at 1 are no evidence.
	Failed map[float64]int
}

// Add counts an owner that failed.
func (o *Owners) Add(share float64, isNew bool) {
	if o.Failed == nil {
		o.Failed = map[float64]int{}
	}
	o.Failed[share]++
	if isNew {
		o.New++
	}
}

// ratios are the bets of E: the new revision makes owners fail so many times as often as the old
// one. The last one is that only the new revision does.
var ratios = [...]float64{1.25, 1.5, 2, 3, 5, 8, 12, 20, 35, 60, 100, math.Inf(1)}

// E returns the e-value against "the new revision makes owners fail at most as often as the old
// one". The stake is spread evenly over ratios.
func (o *Owners) E() float64 {
	sum := 0.0
	for _, ratio := range ratios {
		sum += math.Exp(o.logBet(ratio))
	}
	return sum / float64(len(ratios))
}

// logBet returns the logarithm of the likelihood of what was seen if the new revision makes owners
// fail ratio times as often, over the likelihood if it makes no difference.
func (o *Owners) logBet(ratio float64) float64 {
	if math.IsInf(ratio, 1) && o.New < o.Total() {
		return math.Inf(-1) // an owner with the old revision has failed
	}
	log := 0.0
	if !math.IsInf(ratio, 1) {
		log = float64(o.New) * math.Log(ratio)
	}
	for _, share := range slices.Sorted(maps.Keys(o.Failed)) { // in one order: the sum is the same each time
		if math.IsInf(ratio, 1) {
			log -= float64(o.Failed[share]) * math.Log(share)
		} else {
			log -= float64(o.Failed[share]) * math.Log1p(share*(ratio-1))
		}
	}
	return log
}

// Total returns the number of owners that failed.
func (o *Owners) Total() int {
	failed := 0
	for _, n := range o.Failed {
		failed += n
	}
	return failed
}
