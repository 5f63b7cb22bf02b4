// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

var (
	statusAffinity     = affinityStatus(fwk.UnschedulableAndUnresolvable, interpodaffinity.ErrReasonAffinityRulesNotMatch)
	statusAntiAffinity = affinityStatus(fwk.Unschedulable, interpodaffinity.ErrReasonAntiAffinityRulesNotMatch)
	statusExisting     = affinityStatus(fwk.Unschedulable, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch)
)

func affinityStatus(code fwk.Code, reason string) *fwk.Status {
	return fwk.NewStatus(code, reason).WithPlugin(interpodaffinity.Name)
}

// Filter implements Tracker.
func (t *affinity) Filter(slot cache.Slot) *fwk.Status {
	if !t.satisfies(slot) {
		return statusAffinity
	}
	for _, x := range t.anti {
		if x.hostile.in(x.at[slot]) > 0 {
			return statusAntiAffinity
		}
	}
	for _, x := range t.axes {
		if x.guarded.in(x.at[slot]) > 0 {
			return statusExisting
		}
	}
	return nil
}

// Keep implements Tracker.
func (t *affinity) Keep(slots []cache.Slot) []cache.Slot {
	first := t.first && t.matches == 0
	for _, x := range t.required {
		if first {
			slots = labelled(slots, x.at)
		} else {
			slots = x.affine.with(slots, x.at)
		}
	}
	for _, x := range t.anti {
		slots = x.hostile.without(slots, x.at)
	}
	for _, x := range t.axes {
		slots = x.guarded.without(slots, x.at)
	}
	return slots
}

// satisfies reports whether a node meets the required affinity terms. It must have labels for all
// their keys. Matching pods need not be there if the whole cluster has none and the pod matches its
// own terms: it is then the first of its series.
func (t *affinity) satisfies(slot cache.Slot) bool {
	found := true
	for _, x := range t.required {
		place := x.at[slot]
		if place == unlabelled {
			return false
		}
		found = found && x.affine.in(place) > 0
	}
	return found || t.first && t.matches == 0
}

// Score implements Tracker. The result depends on the distinct scores, not on how many nodes have
// each.
func (t *affinity) Score(feasible []cache.Slot, _ []int32, scores []int64) bool {
	clear(scores)
	wanted := false
	for _, x := range t.axes {
		if !x.wanted.empty() {
			x.wanted.addTo(scores, feasible, x.at)
			wanted = true
		}
	}
	return wanted && t.normalize(scores)
}

// normalize spreads the scores over 0 to 100. If all scores are equal, it returns false: the plugin
// would give all nodes 0.
func (t *affinity) normalize(scores []int64) bool {
	lowest, highest := int64(math.MaxInt64), int64(math.MinInt64)
	for _, score := range scores {
		lowest, highest = min(lowest, score), max(highest, score)
	}
	if highest <= lowest {
		return false
	}
	t.normals.apply(scores, lowest, highest, func(score int64) int64 {
		return int64(float64(fwk.MaxScore) * (float64(score-lowest) / float64(highest-lowest)))
	})
	return true
}
