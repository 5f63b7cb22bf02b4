// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

var (
	statusSpread      = fwk.NewStatus(fwk.Unschedulable, podtopologyspread.ErrReasonConstraintsNotMatch).WithPlugin(podtopologyspread.Name)
	statusSpreadLabel = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, podtopologyspread.ErrReasonNodeLabelNotMatch).WithPlugin(podtopologyspread.Name)
)

// Filter implements Tracker.
func (t *spread) Filter(slot cache.Slot) *fwk.Status {
	for i := range t.hard {
		y := &t.hard[i]
		place := y.at[slot]
		if place == unlabelled {
			return statusSpreadLabel
		}
		if int(y.pods[place])+y.self-y.minimum() > int(y.maxSkew) {
			return statusSpread
		}
	}
	return nil
}

// Keep implements Tracker.
func (t *spread) Keep(slots []cache.Slot) []cache.Slot {
	for i := range t.hard {
		slots = t.hard[i].keep(slots)
	}
	return slots
}

// keep keeps the slots of nodes on which the constraint allows the pods.
func (y *tally) keep(slots []cache.Slot) []cache.Slot {
	limit := int(y.maxSkew) + y.minimum() - y.self
	at, pods := y.at, y.pods
	kept := 0
	for _, slot := range slots {
		place := at[slot]
		if place == unlabelled || int(pods[place]) > limit {
			continue
		}
		slots[kept] = slot
		kept++
	}
	return slots[:kept]
}

// Score implements Tracker. The weight of a constraint grows with the number of its domains among
// the feasible nodes.
func (t *spread) Score(feasible []cache.Slot, sizes []int32, scores []int64) bool {
	if len(t.soft) == 0 {
		return false
	}
	scored := t.scored(feasible, sizes)
	if scored == 0 {
		return false
	}
	t.totals = grow(t.totals[:0], len(feasible))
	clear(t.totals)
	for i := range t.soft {
		y := &t.soft[i]
		if y.perNode {
			y.addPerNode(feasible, t.totals, t.counters[y.counter].pods, scored)
			continue
		}
		y.pass++
		y.look(feasible, t.unscored())
		y.weigh()
		y.addTerms(feasible, t.totals)
	}
	t.finish(feasible, scores)
	return true
}

// unscored returns a slice that is true for the slots that are not scored, or nil if all are
// scored.
func (t *spread) unscored() []bool {
	if t.lacking == 0 {
		return nil
	}
	return t.lacks
}

// scored returns the number of feasible nodes that are scored.
func (t *spread) scored(feasible []cache.Slot, sizes []int32) int {
	lacks := t.unscored()
	if lacks == nil && sizes == nil {
		return len(feasible)
	}
	scored := 0
	for i, slot := range feasible {
		switch {
		case lacks != nil && lacks[slot]:
		case sizes == nil:
			scored++
		default:
			scored += int(sizes[i])
		}
	}
	return scored
}

// look finds the domains of the feasible nodes that are scored.
func (y *tally) look(feasible []cache.Slot, unscored []bool) {
	y.seen = grow(y.seen, len(y.pods))
	y.terms = grow(y.terms, len(y.pods))
	y.found = y.found[:0]
	at, seen, pass := y.at, y.seen, y.pass
	for _, slot := range feasible {
		if place := at[slot]; seen[place] != pass && (unscored == nil || !unscored[slot]) {
			seen[place] = pass
			y.found = append(y.found, place)
		}
	}
}

// weigh computes the weight of the constraint and the contribution of each domain to the score of
// its nodes.
func (y *tally) weigh() {
	domains := len(y.found)
	if y.seen[unlabelled] == y.pass && y.seen[emptyValue] == y.pass {
		domains-- // the plugin treats a missing label like an empty one
	}
	weight := spreadWeight(domains)
	for _, place := range y.found {
		y.terms[place] = spreadTerm(y.pods[place], y.maxSkew, weight)
	}
	// Unless nodes must have all keys, those without the label count for the empty value, but the
	// constraint adds nothing to their own score.
	y.terms[emptyValue] = spreadTerm(y.pods[emptyValue]+y.pods[unlabelled], y.maxSkew, weight)
	y.terms[unlabelled] = 0
}

// addTerms adds the constraint's contribution to the totals. The constraints are added in the
// plugin's order, because the sum of floats depends on it.
func (y *tally) addTerms(feasible []cache.Slot, totals []float64) {
	at, terms := y.at, y.terms
	for i, slot := range feasible {
		totals[i] += terms[at[slot]]
	}
}

// addPerNode is addTerms for hostnames. For these the plugin counts only the pods on the node
// itself, without those of other nodes of the same hostname and whatever the inclusion policies.
func (y *tally) addPerNode(feasible []cache.Slot, totals []float64, pods []int32, scored int) {
	weight, maxSkew, at := spreadWeight(scored), y.maxSkew, y.at
	for i, slot := range feasible {
		if at[slot] != unlabelled {
			totals[i] += spreadTerm(pods[slot], maxSkew, weight)
		}
	}
}

func spreadWeight(domains int) float64 { return math.Log(float64(domains + 2)) }

// spreadTerm returns the contribution of a number of pods to a score. The expression has the same
// form as the plugin's, so that compilers that fuse the multiplication with the addition do so in
// both.
func spreadTerm(pods, maxSkew int32, weight float64) float64 {
	return float64(int64(pods))*weight + float64(maxSkew-1)
}

// rounded is math.Round for numbers that are not negative.
func rounded(x float64) int64 {
	n := int64(x)
	if x-float64(n) >= 0.5 {
		n++
	}
	return n
}

// finish rounds and normalizes the totals: nodes with the fewest pods get the highest score, and
// nodes that are not scored get 0.
func (t *spread) finish(feasible []cache.Slot, scores []int64) {
	unscored := t.unscored()
	lowest, highest := int64(math.MaxInt64), int64(0)
	for i, total := range t.totals {
		score := rounded(total)
		scores[i] = score
		if unscored == nil || !unscored[feasible[i]] {
			lowest, highest = min(lowest, score), max(highest, score)
		}
	}
	if unscored != nil {
		for i, slot := range feasible {
			if unscored[slot] {
				scores[i] = lowest
			}
		}
	}
	t.normals.apply(scores, lowest, highest, func(score int64) int64 {
		if highest == 0 {
			return fwk.MaxScore
		}
		return fwk.MaxScore * (highest + lowest - score) / highest
	})
	if unscored != nil {
		for i, slot := range feasible {
			if unscored[slot] {
				scores[i] = 0
			}
		}
	}
}
