// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// lateSearch runs the uncached Filter plugins, such as the one that allocates devices, on nodes in
// the order of their totals, until they accept one. That one is the best of all nodes that the pod
// fits, so the other nodes need no answer: a decision costs as much as the nodes that refuse.
//
// It is possible for a plain class, if the uncached plugins do not score: the order of two nodes
// then depends on these two only, and byFixed has all nodes in it. Plugins of kind early may score:
// the search then ranks all nodes first.
//
// Decisions reuse its memory one after the other.
type lateSearch struct {
	*decision
	// state is the state that the plugins are run with.
	state fwk.CycleState
	// next is, by part of byFixed, the number of the next bucket to look at.
	next []int64
	// ranked is true if ranking has the nodes that have not been looked at yet.
	ranked  bool
	ranking []ranked
	// level are the nodes with the same total that have not been drawn yet, and total is that total
	// without the scores that are the same on all nodes.
	level []cache.Slot
	total int64
	// batch are the nodes on which the plugins are run at the same time, and totals their totals.
	batch  []cache.Slot
	totals []int64
	// asked is the number of nodes on which the plugins have been run.
	asked int
}

// firstBatch is the number of nodes in the first batch. The next one has nextBatch: if a node
// refuses, others may, too. Each further batch is twice as large.
const (
	firstBatch = 1
	nextBatch  = 16
)

// mayBeLate reports whether lateSearch finds the node that a search on all nodes would find. For a
// group that fits nowhere, DynamicResources looks for claims to release among the nodes on which
// Filter was run for its pods, so it is run on all nodes for those with devices.
func (d *decision) mayBeLate() bool {
	u := &d.uncached
	if d.Draw == nil || !u.active() || !u.filters && u.devices == nil || u.scores || u.claims != nil ||
		!u.allowed.AllNodes() {
		return false
	}
	if d.State.GetPodGroupSchedulingCycle() != nil && (d.delegated || len(d.Pod.Spec.ResourceClaims) > 0) {
		return false
	}
	return d.class.plain() && d.repelling.empty() && d.class.local.feasible > 1
}

// decideLate decides by a lateSearch.
func (d *decision) decideLate(ctx context.Context) Reason {
	s := &d.engine.late
	*s = lateSearch{decision: d, state: d.uncached.state, next: append(s.next[:0], d.class.local.byFixed.tops...),
		level: s.level[:0], batch: s.batch[:0], totals: s.totals[:0]}
	if s.ranked = d.uncached.early; s.ranked {
		if s.rank(ctx) != nil {
			return Failed
		}
	}
	p := d.pass
	p.feasible, p.sizes = p.feasible[:0], nil
	for size := firstBatch; len(p.feasible) == 0; size = max(nextBatch, 2*size) {
		found, err := s.run(ctx, size)
		switch {
		case err != nil:
			return Failed
		case !found:
			d.evaluated = d.engine.NumNodes()
			d.endFilter()
			return NoFit
		}
	}
	d.late, d.feasible = true, len(p.feasible)
	unasked := d.class.local.feasible - s.asked
	d.evaluated, d.partial = d.engine.NumNodes()-unasked, unasked > 0
	d.endFilter()
	// The nodes are in the order of their totals.
	if !d.unscored() {
		d.highest = s.totals[0] + d.class.local.common()
	}
	tied := 1
	for tied < len(p.feasible) && s.totals[tied] == s.totals[0] {
		tied++
	}
	d.best.add(slices.Clone(p.feasible[:tied]))
	return None
}

// run runs the plugins on a batch of this many nodes, and adds those that they accept to the pass.
// found is false if there was no node left.
func (s *lateSearch) run(ctx context.Context, size int) (found bool, err error) {
	s.batch, s.totals = s.batch[:0], s.totals[:0]
	for len(s.batch) < size && s.fill() {
		i := s.Draw(len(s.level), func(i int) int { return len(s.engine.snapshot.Info(s.level[i]).GetPods()) })
		s.batch, s.totals = append(s.batch, s.level[i]), append(s.totals, s.total)
		last := len(s.level) - 1
		s.level[i] = s.level[last]
		s.level = s.level[:last]
	}
	if len(s.batch) == 0 {
		return false, nil
	}
	s.asked += len(s.batch)
	drawn := slices.Clone(s.batch)
	accepted, err := s.accept(ctx)
	if err != nil {
		return false, err
	}
	kept := 0
	for i, slot := range drawn {
		if kept < len(accepted) && accepted[kept] == slot {
			s.totals[kept] = s.totals[i]
			kept++
		}
	}
	s.totals = s.totals[:kept]
	s.pass.feasible = append(s.pass.feasible, accepted...)
	return true, nil
}

// accept returns the nodes of the batch that the plugins accept, in their order.
func (s *lateSearch) accept(ctx context.Context) ([]cache.Slot, error) {
	u := &s.uncached
	if u.devices != nil {
		accepted, _, err := s.judgeDevices(ctx, s.state, s.batch, 0)
		if err != nil || !u.filters {
			return accepted, err
		}
		s.batch = accepted
	} else if err := u.know(ctx, s.state, s.batch); err != nil {
		return nil, err
	}
	accepted, _, err := s.engine.search.run(ctx, u.plan.uncached.Parallelizer(), s.batch, 0, s.uncachedFilter(s.state))
	return accepted, err
}

// skipRefused removes the nodes of level that are known to lack devices. They count as evaluated.
func (s *lateSearch) skipRefused() {
	if c := s.uncached.devices; c != nil {
		before := len(s.level)
		s.level = slices.DeleteFunc(s.level, func(slot cache.Slot) bool { return c.verdict[slot] == devicesRefused })
		s.asked += before - len(s.level)
	}
}

// fill makes level the nodes with the next lower total if all of it have been drawn. It returns
// false if there are none left.
func (s *lateSearch) fill() bool {
	for len(s.level) == 0 {
		if !s.nextLevel() {
			return false
		}
		s.skipRefused()
	}
	return true
}

// nextLevel makes level the nodes with the next lower total, or returns false.
func (s *lateSearch) nextLevel() bool {
	if s.ranked {
		return s.fillRanked()
	}
	rows, found := s.class.local, false
	b := &rows.byFixed
	for part := range s.next {
		for s.next[part] >= 0 && len(b.slots[int64(part)*b.width+s.next[part]]) == 0 {
			s.next[part]--
		}
		if total := s.next[part] + rows.scoreOfKind(part); s.next[part] >= 0 && (!found || total > s.total) {
			found, s.total = true, total
		}
	}
	if !found {
		return false
	}
	for part := range s.next {
		if s.next[part] >= 0 && s.next[part]+rows.scoreOfKind(part) == s.total {
			s.level = append(s.level, b.slots[int64(part)*b.width+s.next[part]]...)
			s.next[part]--
		}
	}
	return true
}

// maxMore bounds the nodes on which searchMore runs the plugins.
const maxMore = 64

// searchMore continues the search until the pass has n nodes, on maxMore nodes at most.
func (d *decision) searchMore(ctx context.Context, n int) error {
	s := &d.engine.late
	if d.uncached.narrow {
		s.state = s.state.Clone() // the results for the node that was found stay in the other one
	}
	for size, left := nextBatch, maxMore; len(d.pass.feasible) < n && left > 0; size *= 2 {
		size = min(size, left)
		left -= size
		d.flat = false
		if found, err := s.run(ctx, size); err != nil || !found {
			return err
		}
	}
	return nil
}
