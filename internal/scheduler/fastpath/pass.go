// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// pass is one pass for a class over all nodes, or over one node of each group. Its memory is lent
// to one decision after the other.
type pass struct {
	snapshot *cache.Snapshot
	// feasible are the nodes that the pod fits. sizes is the number of nodes that each of them
	// stands for (nil: itself), totals are their totals.
	feasible []cache.Slot
	sizes    []int32
	totals   []int64
	// best are the nodes that selectBest has returned. Only selectBest changes them.
	best []cache.Slot

	// The rest is scratch memory.
	sizesOf  []int32
	scores   []int64
	nodeList fwk.NodeScoreList
}

// plain reports whether the nodes of a class differ only in their images and in the scores that are
// not normalized: the trackers are idle, and the other local plugins score all nodes equally.
func (c *class) plain() bool {
	for _, x := range c.trackers {
		if !x.Idle() {
			return false
		}
	}
	return c.local.even()
}

// collect collects the nodes that the rows accept. If there are groups, it collects one node of
// each.
func (p *pass) collect(rows *localRows, g *groups) {
	p.feasible, p.sizes = p.feasible[:0], nil
	switch {
	case g != nil:
		p.feasible = g.representatives(p.feasible)
	case rows.byFixed.on():
		p.feasible = rows.byFixed.all(p.feasible)
	default:
		for slot, verdict := range rows.verdict {
			if verdict == fits {
				p.feasible = append(p.feasible, cache.Slot(slot))
			}
		}
	}
}

// keep removes the nodes on which the trackers do not accept the class's pods.
func (p *pass) keep(c *class) {
	for _, x := range c.trackers {
		if x.filters {
			p.feasible = x.Keep(p.feasible)
		}
	}
}

// count returns the number of nodes that the remaining ones stand for.
func (p *pass) count(g *groups) int {
	if g == nil {
		return len(p.feasible)
	}
	p.sizesOf = resized(p.sizesOf, len(p.feasible))
	p.sizes = p.sizesOf
	feasible := 0
	for i, slot := range p.feasible {
		p.sizes[i] = g.list[g.of(slot)].size
		feasible += int(p.sizes[i])
	}
	return feasible
}

// total computes the totals of the remaining nodes, without the scores of the uncached plugins.
func (p *pass) total(ctx context.Context, c *class, r *Request) error {
	p.totals = resized(p.totals, len(p.feasible))
	p.addFixed(c.local)
	for i := range c.local.normalized {
		if c.local.skips[i] {
			continue
		}
		if err := p.addNormalized(ctx, p.totals, c.local, i, r); err != nil {
			return err
		}
	}
	for _, x := range c.trackers {
		if x.weight != 0 {
			p.scores = resized(p.scores, len(p.feasible))
			if x.Score(p.feasible, p.sizes, p.scores) {
				p.add(p.scores, x.weight)
			}
		}
	}
	return nil
}

// addFixed starts the totals with the scores that are not normalized.
func (p *pass) addFixed(l *localRows) {
	if l.images == nil {
		for i, slot := range p.feasible {
			p.totals[i] = l.fixed[slot]
		}
		return
	}
	for i, slot := range p.feasible {
		p.totals[i] = l.fixed[slot] + l.images.of(slot)
	}
}

func (p *pass) add(scores []int64, weight int64) {
	for i, score := range scores {
		p.totals[i] += score * weight
	}
}

// addNormalized adds the normalized scores of one plugin to numbers by position in feasible.
func (p *pass) addNormalized(ctx context.Context, to []int64, l *localRows, i int, r *Request) error {
	s := &l.setup.normalized[i]
	column := l.normalized[i]
	if s.normalization == byPlugin {
		return p.addNormalizedByPlugin(ctx, to, l, i, r)
	}
	var highest int64
	if column != nil {
		for _, slot := range p.feasible {
			score := column[slot]
			if score < 0 {
				return fmt.Errorf("score plugin %q: a score of %d is out of range", s.name, score)
			}
			highest = max(highest, score)
		}
	}
	reversed := s.normalization == byMaxReversed
	switch {
	case highest == 0 && reversed:
		for i := range to {
			to[i] += fwk.MaxScore * s.weight
		}
	case highest == 0:
	case reversed:
		for i, slot := range p.feasible {
			to[i] += (fwk.MaxScore - fwk.MaxScore*column[slot]/highest) * s.weight
		}
	default:
		for i, slot := range p.feasible {
			to[i] += fwk.MaxScore * column[slot] / highest * s.weight
		}
	}
	return nil
}

// addNormalizedByPlugin adds scores that the plugin itself normalizes.
func (p *pass) addNormalizedByPlugin(ctx context.Context, to []int64, l *localRows, i int, r *Request) error {
	s := &l.setup.normalized[i]
	p.nodeList = resized(p.nodeList, len(p.feasible))
	for j, slot := range p.feasible {
		p.nodeList[j] = fwk.NodeScore{Name: p.snapshot.Info(slot).Node().Name}
		if column := l.normalized[i]; column != nil {
			p.nodeList[j].Score = column[slot]
		}
	}
	if status := r.Plan.local.NormalizeScores(ctx, l.state, r.Pod, s.at, p.nodeList); !status.IsSuccess() {
		return statusError(status)
	}
	for j := range p.nodeList {
		score := p.nodeList[j].Score
		if score < fwk.MinScore || score > fwk.MaxScore {
			return fmt.Errorf("score plugin %q: a score of %d is out of range", s.name, score)
		}
		to[j] += score * s.weight
	}
	return nil
}

// selectBest returns the nodes with the highest total, and that total.
func (p *pass) selectBest() (best []cache.Slot, highest int64) {
	p.best = p.best[:0]
	for i, total := range p.totals {
		switch {
		case len(p.best) == 0 || total > highest:
			highest = total
			p.best = append(p.best[:0], p.feasible[i])
		case total == highest:
			p.best = append(p.best, p.feasible[i])
		}
	}
	return p.best, highest
}
