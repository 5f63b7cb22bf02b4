// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"context"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// earlyScores are the scores of the plugins of kind early in one decision. These plugins are run on
// all nodes that rows accept before the uncached plugins filter them, so that lateSearch can try
// the best nodes first. If the uncached plugins filter all nodes, the early ones are run on those
// that remain.
//
// Decisions reuse its memory one after the other.
type earlyScores struct {
	scores []fwk.NodePluginScores
	// at is, by slot, the position in scores. Only the slots of nodes that are scored have one.
	at []int32
}

// run runs the plugins on the nodes in these slots, on a state of their own: no other plugin reads
// what they write.
func (s *earlyScores) run(ctx context.Context, d *decision, slots []cache.Slot) error {
	nodes := make([]fwk.NodeInfo, len(slots)) // a new slice: plugins may keep it in the state
	s.at = resized(s.at, d.engine.snapshot.Slots())
	for i, slot := range slots {
		nodes[i] = d.engine.snapshot.Info(slot)
		s.at[slot] = int32(i)
	}
	state := schedframework.NewCycleState()
	state.SetRecordPluginMetrics(d.State.ShouldRecordPluginMetrics())
	if status := d.Plan.early.RunPreScorePlugins(ctx, state, d.Pod, nodes); !status.IsSuccess() {
		return statusError(status)
	}
	scores, status := d.Plan.early.RunScorePlugins(ctx, state, d.Pod, nodes)
	if !status.IsSuccess() {
		return statusError(status)
	}
	s.scores = scores
	return nil
}

// of returns the scores of a node that the plugins were run on.
func (s *earlyScores) of(slot cache.Slot) *fwk.NodePluginScores { return &s.scores[s.at[slot]] }

// addTo adds the scores to the totals of the pass's nodes.
func (s *earlyScores) addTo(p *pass) {
	for i, slot := range p.feasible {
		p.totals[i] += s.of(slot).TotalScore
	}
}

// ranked is a node with its total, apart from the scores that are the same on all nodes.
type ranked struct {
	slot  cache.Slot
	total int64
}

// rank makes the search take the nodes that rows accept in the order of their totals with the early
// scores, instead of the order of byFixed.
func (s *lateSearch) rank(ctx context.Context) error {
	rows, early := s.class.local, &s.engine.early
	slots := rows.byFixed.all(nil)
	if err := early.run(ctx, s.decision, slots); err != nil {
		return err
	}
	for _, slot := range slots {
		total := rows.fixed[slot] + early.of(slot).TotalScore
		if rows.images != nil {
			total += rows.images.of(slot)
		}
		s.ranking = append(s.ranking, ranked{slot, total})
	}
	slices.SortFunc(s.ranking, func(a, b ranked) int { return cmp.Compare(b.total, a.total) })
	return nil
}

// fillRanked is fill for a search whose nodes are ranked.
func (s *lateSearch) fillRanked() bool {
	if len(s.ranking) == 0 {
		return false
	}
	s.total = s.ranking[0].total
	for len(s.ranking) > 0 && s.ranking[0].total == s.total {
		s.level = append(s.level, s.ranking[0].slot)
		s.ranking = s.ranking[1:]
	}
	return true
}
