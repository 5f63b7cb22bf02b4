// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// eligibilityRows holds the answers of the plugins of kind eligibility, for each node, for pods
// with equal tolerations, node selector, node affinity and volumeRules. Many local keys share them,
// because pods differ in requests more often than in these. The answers depend only on the node
// objects, so adding and removing pods does not change them.
type eligibilityRows struct {
	runner
	key   string
	setup *setup
	// rules are the conditions of the pods' volumes that are part of the key.
	rules volumeRules
	// users is the number of localRows that use the rows.
	users int
	// inputs estimates the memory of what the plugins keep of the pods' selectors in state.
	inputs int
	// bytes is the size of the rows when it was last accounted.
	bytes int

	// pos is the position in the log up to which the rows are up to date; 0 if they have not been
	// built.
	pos uint64
	// The columns are by slot. For a slot without a node, or on which a filter refuses the pods,
	// only verdict is set.
	verdict []uint16
	// fixed is the weighted sum of the scores that are not normalized. A nil column is all zeros.
	fixed []int64
	// normalized holds the scores of Plan.normalized, before normalization. A nil column is all
	// zeros. The columns of plugins of other kinds are nil.
	normalized [][]int64
	// trackers holds the trackers of PodTopologySpread that classes share, by tracker.key.
	trackers map[string]*tracker
}

// holdEligibility returns the rows for a key. The caller must release them with
// classTable.releaseEligibility.
func (s *setup) holdEligibility(ctx context.Context, plan *Plan, key *keyWriter, pod *corev1.Pod) (*eligibilityRows,
	error) {
	r, ok := s.eligibilityRows[string(key.eligibilityPart())]
	if !ok {
		runner, err := newRunner(ctx, plan, plan.eligibility, pod)
		if err != nil {
			return nil, err
		}
		r = &eligibilityRows{
			runner: runner, key: string(key.eligibilityPart()), setup: s,
			normalized: make([][]int64, len(s.normalized)), trackers: map[string]*tracker{},
			inputs: 2 * podfields.NodeSelectionBytes(pod), // as they are, and parsed
		}
		if key.rules != nil {
			r.rules = key.rules.clone()
		}
		s.eligibilityRows[r.key] = r
	}
	r.users++
	return r, nil
}

// sync brings the rows up to date with the snapshot. pod can be any pod that has the key. After an
// error the next call rebuilds the rows.
func (e *eligibilityRows) sync(ctx context.Context, r *refresher, pod *corev1.Pod) error {
	log := r.snapshot.Log()
	changes, ok := log.Since(e.pos)
	if ok && len(changes) == 0 {
		return nil
	}
	e.state.SetRecordPluginMetrics(r.recordMetrics)
	e.pos = 0
	e.resize(r.snapshot.Slots())
	if err := e.update(ctx, r, pod, changes, ok); err != nil {
		return err
	}
	e.pos = log.End()
	return nil
}

func (e *eligibilityRows) update(ctx context.Context, r *refresher, pod *corev1.Pod, changes []cache.Change,
	ok bool) error {
	matters := func(change cache.Change) bool {
		return change.Kind != cache.PodAdded && change.Kind != cache.PodRemoved
	}
	if !ok || worthRebuilding(changes, len(e.verdict), matters) {
		return e.rebuild(ctx, r, pod)
	}
	r.seen.reset(r.snapshot.Slots())
	for _, change := range changes {
		if !matters(change) || !r.seen.add(change.Slot) {
			continue
		}
		if err := e.refresh(ctx, r, change.Slot, pod); err != nil {
			return err
		}
	}
	return nil
}

// resize gives the columns the length of the number of slots.
func (e *eligibilityRows) resize(slots int) {
	e.verdict = fitted(e.verdict, slots, noNode)
	if e.fixed != nil {
		e.fixed = fitted(e.fixed, slots, 0)
	}
	for i, column := range e.normalized {
		if column != nil {
			e.normalized[i] = fitted(column, slots, 0)
		}
	}
}

// refresh runs the plugins on the node in a slot.
func (e *eligibilityRows) refresh(ctx context.Context, r *refresher, slot cache.Slot, pod *corev1.Pod) error {
	info := r.snapshot.Info(slot)
	if info == nil {
		e.verdict[slot] = noNode
		return nil
	}
	if !e.rules.match(info.Node()) {
		e.verdict[slot] = refused
		return nil
	}
	r.nodeScores = resized(r.nodeScores, e.setup.eligibilityScores)
	fit, err := e.ask(ctx, r.plan.eligibility, info, pod, r.nodeScores)
	switch {
	case err != nil:
		return err
	case !fit:
		e.verdict[slot] = refused
		return nil
	}
	e.verdict[slot] = fits
	return e.put(slot, r.nodeScores)
}

// rebuild runs the plugins on all nodes.
func (e *eligibilityRows) rebuild(ctx context.Context, r *refresher, pod *corev1.Pod) error {
	for slot := range e.verdict {
		switch info := r.snapshot.Info(cache.Slot(slot)); {
		case info == nil:
			e.verdict[slot] = noNode
		case e.rules.match(info.Node()):
			e.verdict[slot] = fits
		default:
			e.verdict[slot] = refused
		}
	}
	e.fixed = nil
	clear(e.normalized)
	width := e.setup.eligibilityScores
	scores, err := e.askAll(ctx, r.plan.eligibility, r, pod, e.verdict, width)
	if err != nil {
		return err
	}
	for slot, verdict := range e.verdict {
		if verdict == fits {
			if err := e.put(cache.Slot(slot), scores[slot*width:(slot+1)*width]); err != nil {
				return err
			}
		}
	}
	return nil
}

// put writes the scores of a node that the pods fit into the columns.
func (e *eligibilityRows) put(slot cache.Slot, scores []int64) error {
	fixed, err := sumFixed(e.setup.eligibilityFixed, scores)
	if err != nil {
		return err
	}
	e.fixed = set(e.fixed, len(e.verdict), slot, fixed)
	for i, s := range e.setup.normalized {
		if s.eligibility {
			e.normalized[i] = set(e.normalized[i], len(e.verdict), slot, scores[s.at])
		}
	}
	return nil
}

// size estimates the memory of the rows.
func (e *eligibilityRows) size() int {
	n := 1024 + e.inputs + len(e.key) + 2*cap(e.verdict) + 8*cap(e.fixed)
	for _, column := range e.normalized {
		n += 8 * cap(column)
	}
	return n
}

// worthRebuilding reports whether so many of the changes matter that it is cheaper to evaluate all
// slots together.
func worthRebuilding(changes []cache.Change, slots int, matters func(cache.Change) bool) bool {
	if 2*len(changes) <= slots {
		return false
	}
	n := 0
	for _, change := range changes {
		if matters(change) {
			n++
		}
	}
	return 2*n > slots
}

// set sets a number in a column of a number of slots. A nil column is all zeros.
func set(column []int64, slots int, slot cache.Slot, number int64) []int64 {
	if column == nil {
		if number == 0 {
			return nil
		}
		column = make([]int64, slots)
	}
	column[slot] = number
	return column
}

// sumFixed returns the weighted sum of scores that are not normalized.
func sumFixed(scorers []scorer, scores []int64) (int64, error) {
	var sum int64
	for i := range scorers {
		s := &scorers[i]
		score := scores[s.at]
		if score < fwk.MinScore || score > fwk.MaxScore {
			return 0, outOfRange(s.name, score)
		}
		sum += score * s.weight
	}
	return sum, nil
}
