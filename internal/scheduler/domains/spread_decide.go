// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package domains

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

// Filter implements Cross.
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

// Score implements Cross. What a plugin's scores depend on is which nodes are feasible, and not only through the highest
// and the lowest score: how much a constraint weighs grows with the number of its domains among them.
func (t *spread) Score(feasible []cache.Slot, scores []int64) bool {
	if len(t.soft) == 0 {
		return false
	}
	t.weigh(t.look(feasible))
	lowest, highest := int64(math.MaxInt64), int64(0)
	for i, slot := range feasible {
		scores[i] = t.raw(slot)
		if scores[i] >= 0 {
			lowest, highest = min(lowest, scores[i]), max(highest, scores[i])
		}
	}
	normalizeSpread(scores, lowest, highest)
	return true
}

// ignored says whether a node is not scored.
func (t *spread) ignored(slot cache.Slot) bool {
	if !t.allKeys {
		return false
	}
	for i := range t.soft {
		if t.soft[i].at[slot] == unlabelled {
			return true
		}
	}
	return false
}

// look finds the domains of the feasible nodes and returns the number of nodes that are scored.
func (t *spread) look(feasible []cache.Slot) (scored int) {
	t.pass++
	for i := range t.soft {
		y := &t.soft[i]
		y.seen = grow(y.seen, len(y.pods))
		y.terms = grow(y.terms, len(y.pods))
		y.found = y.found[:0]
	}
	for _, slot := range feasible {
		if t.ignored(slot) {
			continue
		}
		scored++
		for i := range t.soft {
			if y := &t.soft[i]; !y.perNode {
				y.see(y.at[slot], t.pass)
			}
		}
	}
	return scored
}

func (y *tally) see(place int32, pass uint64) {
	if y.seen[place] != pass {
		y.seen[place] = pass
		y.found = append(y.found, place)
	}
}

// weigh works out the weights of the constraints and what each domain adds to the score of its nodes.
func (t *spread) weigh(scored int) {
	for i := range t.soft {
		y := &t.soft[i]
		if y.perNode {
			y.weight = math.Log(float64(scored + 2))
			continue
		}
		domains := len(y.found)
		if y.seen[unlabelled] == t.pass && y.seen[emptyValue] == t.pass {
			domains-- // a missing label and an empty one are the same to the plugin
		}
		y.weight = math.Log(float64(domains + 2))
		for _, place := range y.found {
			y.terms[place] = y.term(y.pods[place])
		}
		// Unless nodes need have all keys, those without the label count for the empty value, but get nothing for it.
		y.terms[emptyValue] = y.term(y.pods[emptyValue] + y.pods[unlabelled])
		y.terms[unlabelled] = 0
	}
}

// term is what a number of pods adds to a score. The expression has the form of the plugin's, so that compilers that
// fuse the multiplication with the addition do so in both.
func (y *tally) term(pods int32) float64 {
	return float64(int64(pods))*y.weight + float64(y.maxSkew-1)
}

// raw is the score of a node before normalisation, -1 if it is not scored. The order of additions is the plugin's.
func (t *spread) raw(slot cache.Slot) int64 {
	if t.ignored(slot) {
		return -1
	}
	var score float64
	for i := range t.soft {
		y := &t.soft[i]
		switch {
		case !y.perNode:
			score += y.terms[y.at[slot]]
		case y.at[slot] != unlabelled:
			score += y.term(t.counters[y.counter].pods[slot])
		}
	}
	return int64(math.Round(score))
}

// normalizeSpread turns the fewest pods into the highest score.
func normalizeSpread(scores []int64, lowest, highest int64) {
	for i, score := range scores {
		switch {
		case score < 0:
			scores[i] = 0
		case highest == 0:
			scores[i] = fwk.MaxNodeScore
		default:
			scores[i] = fwk.MaxNodeScore * (highest + lowest - score) / highest
		}
	}
}
