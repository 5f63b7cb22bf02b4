// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Keep implements Tracker. A node must have labels for all keys of the required affinity terms, and
// in each of these domains there must be pods that match all the terms. The pods need not be there
// if the whole cluster has none and the pod matches its own terms: it is then the first of its
// series.
func (a *affinity) Keep(slots []cache.Slot) []cache.Slot {
	first := a.first && a.matches == 0
	for _, x := range a.required {
		if first {
			slots = labelled(slots, x.at)
		} else {
			slots = x.affine.with(slots, x.at)
		}
	}
	for _, x := range a.anti {
		slots = x.hostile.without(slots, x.at)
	}
	for _, x := range a.axes {
		slots = x.guarded.without(slots, x.at)
	}
	return slots
}

// Score implements Tracker. The result depends on the distinct scores, not on how many nodes have
// each.
func (a *affinity) Score(feasible []cache.Slot, _ []int32, scores []int64) bool {
	clear(scores)
	wanted := false
	for _, x := range a.axes {
		if !x.wanted.empty() {
			x.wanted.addTo(scores, feasible, x.at)
			wanted = true
		}
	}
	return wanted && a.normalize(scores)
}

// normalize spreads the scores over 0 to 100. If all scores are equal, it returns false: the plugin
// would give all nodes 0.
func (a *affinity) normalize(scores []int64) bool {
	lowest, highest := int64(math.MaxInt64), int64(math.MinInt64)
	for _, score := range scores {
		lowest, highest = min(lowest, score), max(highest, score)
	}
	if highest <= lowest {
		return false
	}
	a.normals.apply(scores, lowest, highest, func(score int64) int64 {
		return int64(float64(fwk.MaxScore) * (float64(score-lowest) / float64(highest-lowest)))
	})
	return true
}
