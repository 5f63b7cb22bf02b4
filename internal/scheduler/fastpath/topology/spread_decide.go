// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Keep implements Tracker.
func (s *spread) Keep(slots []cache.Slot) []cache.Slot {
	for i := range s.hard {
		slots = s.hard[i].keep(slots)
	}
	return slots
}

// keep keeps the slots of nodes on which the constraint allows the pods.
func (t *tally) keep(slots []cache.Slot) []cache.Slot {
	limit := t.limit()
	at, pods := t.at, t.pods
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

// limit returns the highest number of pods in a domain that has room for another one.
func (t *tally) limit() int { return int(t.maxSkew) + t.minimum() - t.self }

// Score implements Tracker. The weight of a constraint grows with the number of its domains among
// the feasible nodes.
func (s *spread) Score(feasible []cache.Slot, sizes []int32, scores []int64) bool {
	if len(s.soft) == 0 {
		return false
	}
	scored := s.scored(feasible, sizes)
	if scored == 0 {
		return false
	}
	s.totals = grow(s.totals[:0], len(feasible))
	clear(s.totals)
	for i := range s.soft {
		y := &s.soft[i]
		if y.perNode {
			y.addPerNode(feasible, s.totals, s.counters[y.counter].pods, scored)
			continue
		}
		y.pass++
		y.look(feasible, s.unscored())
		y.weigh()
		y.addTerms(feasible, s.totals)
	}
	s.finish(feasible, scores)
	return true
}

// unscored returns a slice that is true for the slots that are not scored, or nil if all are
// scored.
func (s *spread) unscored() []bool {
	if s.lacking == 0 {
		return nil
	}
	return s.lacks
}

// scored returns the number of feasible nodes that are scored.
func (s *spread) scored(feasible []cache.Slot, sizes []int32) int {
	lacks := s.unscored()
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
func (t *tally) look(feasible []cache.Slot, unscored []bool) {
	t.seen = grow(t.seen, len(t.pods))
	t.terms = grow(t.terms, len(t.pods))
	t.found = t.found[:0]
	at, seen, pass := t.at, t.seen, t.pass
	for _, slot := range feasible {
		if place := at[slot]; seen[place] != pass && (unscored == nil || !unscored[slot]) {
			seen[place] = pass
			t.found = append(t.found, place)
		}
	}
}

// weigh computes the weight of the constraint and the contribution of each domain to the score of
// its nodes.
func (t *tally) weigh() {
	domains := len(t.found)
	if t.seen[unlabelled] == t.pass && t.seen[emptyValue] == t.pass {
		domains-- // the plugin treats a missing label like an empty one
	}
	weight := spreadWeight(domains)
	for _, place := range t.found {
		t.terms[place] = spreadTerm(t.pods[place], t.maxSkew, weight)
	}
	// Unless nodes must have all keys, those without the label count for the empty value, but the
	// constraint adds nothing to their own score.
	t.terms[emptyValue] = spreadTerm(t.pods[emptyValue]+t.pods[unlabelled], t.maxSkew, weight)
	t.terms[unlabelled] = 0
}

// addTerms adds the constraint's contribution to the totals. The constraints are added in the
// plugin's order, because the sum of floats depends on it.
func (t *tally) addTerms(feasible []cache.Slot, totals []float64) {
	at, terms := t.at, t.terms
	for i, slot := range feasible {
		totals[i] += terms[at[slot]]
	}
}

// addPerNode is addTerms for hostnames. For these the plugin counts only the pods on the node
// itself, not on other nodes of the same hostname, and ignores the inclusion policies.
func (t *tally) addPerNode(feasible []cache.Slot, totals []float64, pods []int32, scored int) {
	weight, maxSkew, at := spreadWeight(scored), t.maxSkew, t.at
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
func (s *spread) finish(feasible []cache.Slot, scores []int64) {
	unscored := s.unscored()
	lowest, highest := int64(math.MaxInt64), int64(0)
	for i, total := range s.totals {
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
	s.normals.apply(scores, lowest, highest, func(score int64) int64 {
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
