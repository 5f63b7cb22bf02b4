// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// plain says that a class's nodes differ in nothing but the scores that are not normalised: the
// twins are idle, and the other local plugins give the same to all nodes.
func (c *class) plain() bool {
	for _, x := range c.crosses {
		if !x.Idle() {
			return false
		}
	}
	return c.local.even()
}

// filter collects the nodes that a class's pods fit, those that stand for others if there are
// groups, and returns how many fit.
func (e *Engine) filter(c *class, g *groups) int {
	e.feasible, e.sizes = e.feasible[:0], nil
	switch {
	case g != nil:
		e.feasible = g.representatives(e.feasible)
	case c.local.byFixed.on():
		e.feasible = c.local.byFixed.all(e.feasible)
	default:
		for slot, verdict := range c.local.verdict {
			if verdict == fits {
				e.feasible = append(e.feasible, cache.Slot(slot))
			}
		}
	}
	e.looked += len(e.feasible)
	e.keep(c)
	if g == nil {
		return len(e.feasible)
	}
	e.sizesOf = resized(e.sizesOf, len(e.feasible))
	e.sizes = e.sizesOf
	feasible := 0
	for i, slot := range e.feasible {
		e.sizes[i] = g.list[g.of(slot)].size
		feasible += int(e.sizes[i])
	}
	return feasible
}

// keep leaves out the nodes on which the twins do not let the class's pods.
func (e *Engine) keep(c *class) {
	for _, x := range c.crosses {
		if x.filters {
			e.feasible = x.Keep(e.feasible)
		}
	}
}

// score works out the totals of the nodes that filter has left, and which of them are best. A
// single one needs no score.
func (e *Engine) score(ctx context.Context, c *class, pod *corev1.Pod) error {
	if len(e.feasible) == 1 {
		e.best = append(e.best[:0], e.feasible[0])
		return nil
	}
	e.totals = resized(e.totals, len(e.feasible))
	e.addFixed(c.local)
	for i := range c.local.normalised {
		if c.local.skips[i] {
			continue
		}
		if err := e.addNormalised(ctx, c.local, i, pod); err != nil {
			return err
		}
	}
	for _, x := range c.crosses {
		if x.weight != 0 {
			e.scores = resized(e.scores, len(e.feasible))
			if x.Score(e.feasible, e.sizes, e.scores) {
				e.add(e.scores, x.weight)
			}
		}
	}
	if err := e.scoreRest(ctx, c.local.gen.Plan, pod); err != nil {
		return err
	}
	e.selectBest()
	return nil
}

// addFixed begins the totals with the scores that are not normalised.
func (e *Engine) addFixed(l *localRows) {
	if l.images.scores == nil {
		for i, slot := range e.feasible {
			e.totals[i] = l.fixed[slot]
		}
		return
	}
	for i, slot := range e.feasible {
		e.totals[i] = l.fixed[slot] + l.images.scores[slot]
	}
}

func (e *Engine) add(scores []int64, weight int64) {
	for i, score := range scores {
		e.totals[i] += score * weight
	}
}

// addNormalised adds the scores of one plugin as they are after normalisation.
func (e *Engine) addNormalised(ctx context.Context, l *localRows, i int, pod *corev1.Pod) error {
	s := &l.gen.normalised[i]
	column := l.normalised[i]
	if s.normalization == byPlugin {
		return e.addNormalisedByPlugin(ctx, l, i, pod)
	}
	var highest int64
	if column != nil {
		for _, slot := range e.feasible {
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
		for i := range e.totals {
			e.totals[i] += fwk.MaxScore * s.weight
		}
	case highest == 0:
	case reversed:
		for i, slot := range e.feasible {
			e.totals[i] += (fwk.MaxScore - fwk.MaxScore*column[slot]/highest) * s.weight
		}
	default:
		for i, slot := range e.feasible {
			e.totals[i] += fwk.MaxScore * column[slot] / highest * s.weight
		}
	}
	return nil
}

// addNormalisedByPlugin has the plugin normalise.
func (e *Engine) addNormalisedByPlugin(ctx context.Context, l *localRows, i int, pod *corev1.Pod) error {
	s := &l.gen.normalised[i]
	e.nodeList = resized(e.nodeList, len(e.feasible))
	for j, slot := range e.feasible {
		e.nodeList[j] = fwk.NodeScore{Name: e.snapshot.Info(slot).Node().Name}
		if column := l.normalised[i]; column != nil {
			e.nodeList[j].Score = column[slot]
		}
	}
	if status := l.gen.local.NormalizeScores(ctx, l.state, pod, s.at, e.nodeList); !status.IsSuccess() {
		return statusError(status)
	}
	for j := range e.nodeList {
		score := e.nodeList[j].Score
		if score < fwk.MinScore || score > fwk.MaxScore {
			return fmt.Errorf("score plugin %q: a score of %d is out of range", s.name, score)
		}
		e.totals[j] += score * s.weight
	}
	return nil
}

// selectBest collects the nodes with the highest total.
func (e *Engine) selectBest() {
	e.best = e.best[:0]
	var highest int64
	for i, total := range e.totals {
		switch {
		case len(e.best) == 0 || total > highest:
			highest = total
			e.best = append(e.best[:0], e.feasible[i])
		case total == highest:
			e.best = append(e.best, e.feasible[i])
		}
	}
}

// choose keeps what score found best: nodes, or the best nodes of groups.
func (e *Engine) choose(g *groups) {
	if g == nil {
		e.chosen.reset(e.best)
		return
	}
	e.chosen.reset(nil)
	for _, slot := range e.best {
		e.chosen.add(g.best(g.of(slot)))
	}
}
