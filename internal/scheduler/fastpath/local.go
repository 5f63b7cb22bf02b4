// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// Verdicts of the local filters on a slot.
const (
	fits    uint16 = iota // the local filters accept the node
	noNode                // there is no node in the slot
	refused               // a local filter refuses the node
	// occupied means that the local filters accept the node, but not beside the pods that are
	// nominated to it.
	occupied
)

// localRows holds the answers, for each node, of the plugins that depend on one node at a time, for
// the pods with one local key. It combines
//
//   - eligibilityRows, shared with all pods of the same tolerations, node selector and node
//     affinity,
//   - the answers of NodeResourcesFit and NodeResourcesBalancedAllocation, computed from the
//     nodeTable (demand),
//   - the scores of ImageLocality, shared with all pods of the same images (imageColumn),
//   - the answers of the remaining plugins, which are run if they do anything for these pods,
//
// and is updated through the snapshot's change log: the row of a node is valid until the log has a
// change of the node. The columns follow from the snapshot alone, so they can be rebuilt at any
// time.
type localRows struct {
	key   string
	setup *setup
	// runner runs the plugins of Plan.local. asks is true if they must be run on nodes.
	runner
	asks bool
	// eligibility, demand and images are held, and released with the rows. images is nil if
	// ImageLocality scores all nodes 0.
	eligibility *eligibilityRows
	demand      *demand
	images      *imageColumn
	// ports estimates the memory of the host ports that NodePorts keeps in state.
	ports int
	// extended is true if the pods request resources that devices may back.
	extended bool
	// classes is the number of classes that use the rows.
	classes int
	// groups are all groups in use.
	groups []*groups
	// bytes is the size of the rows when it was last accounted.
	bytes int

	// pos is the position in the log up to which the rows are up to date; 0 if they have not been
	// built.
	pos uint64
	// seen is true if the rows have been used before. Columns of rows that were used only once are
	// lent to other rows.
	seen bool
	columns
	// normalized holds the scores of Plan.normalized, before normalization. A nil column is all
	// zeros. The columns of eligibility plugins belong to eligibilityRows.
	normalized [][]int64
	// skips is true for each plugin of Plan.normalized whose PreScore skipped: it then adds no
	// score, not even 0.
	skips []bool
	occupation
}

// newLocalRows runs PreFilter and PreScore of the local plugins for the pods, before any node. key
// holds the key of the pod.
func newLocalRows(ctx context.Context, s *setup, key *keyWriter, pod *corev1.Pod, r *refresher) (*localRows, error) {
	l := &localRows{key: string(key.localPart()), setup: s, ports: podfields.HostPortBytes(pod),
		extended: podfields.RequestsExtended(pod)}
	var err error
	if l.runner, err = newRunner(ctx, r.plan, r.plan.local, pod); err != nil {
		return nil, err
	}
	if l.eligibility, err = s.holdEligibility(ctx, r.plan, key, pod); err != nil {
		return nil, err
	}
	l.named = l.named || l.eligibility.named
	if l.named {
		return l, nil
	}
	l.demand = s.resources.demandOf(pod, r.nodes, r.snapshot)
	skippedScores := l.state.GetSkipScorePlugins()
	l.asks = !l.state.GetSkipFilterPlugins().HasAll(s.localFilters...) || !skippedScores.HasAll(s.localScores...)
	l.normalized = make([][]int64, len(s.normalized))
	for i := range s.normalized {
		skipped := skippedScores
		if s.normalized[i].eligibility {
			skipped = l.eligibility.state.GetSkipScorePlugins()
		}
		l.skips = append(l.skips, skipped.Has(s.normalized[i].name))
	}
	l.images = s.holdImages(key.imagesPart(), &key.images)
	return l, nil
}

// sync brings the rows up to date with the snapshot. pod can be any pod that has the key. After an
// error the rows must not be used.
func (l *localRows) sync(ctx context.Context, r *refresher, pod *corev1.Pod) error {
	if err := l.eligibility.sync(ctx, r, pod); err != nil {
		return err
	}
	r.nodes.sync(r.snapshot)
	if l.images != nil {
		l.images.sync(r)
	}
	r.classes.lend(l)
	l.state.SetRecordPluginMetrics(r.recordMetrics)
	changes, ok := r.snapshot.Log().Since(l.pos)
	l.resize(r.snapshot.Slots())
	if err := l.update(ctx, r, pod, changes, ok); err != nil {
		return err
	}
	l.pos = r.snapshot.Log().End()
	return nil
}

func (l *localRows) update(ctx context.Context, r *refresher, pod *corev1.Pod, changes []cache.Change, ok bool) error {
	if !ok || 2*len(changes) > r.snapshot.Slots() {
		return l.rebuild(ctx, r, pod)
	}
	r.seen.reset(r.snapshot.Slots())
	for _, change := range changes {
		if !r.seen.add(change.Slot) {
			continue
		}
		if err := l.refresh(ctx, r, change.Slot, pod); err != nil {
			return err
		}
	}
	return nil
}

// resize gives the columns the length of the number of slots.
func (l *localRows) resize(slots int) {
	for i := range l.setup.normalized {
		if l.setup.normalized[i].eligibility {
			l.normalized[i] = l.eligibility.normalized[i]
		}
	}
	// The columns are new, or belonged to another profile.
	if l.byFixed.highest() != l.setup.highestFixed {
		l.byFixed = newBuckets(l.setup.highestFixed)
	}
	l.byFixed.grow(slots)
	if len(l.verdict) == slots {
		return
	}
	l.verdict = fitted(l.verdict, slots, noNode)
	l.fixed = fitted(l.fixed, slots, 0)
	for i, column := range l.normalized {
		if column != nil && !l.setup.normalized[i].eligibility {
			l.normalized[i] = fitted(column, slots, 0)
		}
	}
}

// judge computes the verdict on a slot and the weighted sum of the scores that are not normalized.
// It leaves out the plugins that must be run.
func (l *localRows) judge(nodes *nodeTable, slot int) (verdict uint16, fixed int64, err error) {
	if verdict = l.eligibility.verdict[slot]; verdict != fits {
		return verdict, 0, nil
	}
	node := &nodes.nodes[slot]
	if !l.demand.fits(node, slot) {
		return refused, 0, nil
	}
	fixed, err = l.demand.score(node, slot)
	if l.eligibility.fixed != nil {
		fixed += l.eligibility.fixed[slot]
	}
	return fits, fixed, err
}

// refresh recomputes the row of the node in a slot.
func (l *localRows) refresh(ctx context.Context, r *refresher, slot cache.Slot, pod *corev1.Pod) error {
	verdict, fixed, err := l.judge(r.nodes, int(slot))
	if err != nil {
		return err
	}
	if l.asks && verdict == fits {
		r.nodeScores = resized(r.nodeScores, len(l.setup.localScores))
		fit, err := l.ask(ctx, r.plan.local, r.snapshot.Info(slot), pod, r.nodeScores)
		switch {
		case err != nil:
			return err
		case !fit:
			verdict, fixed = refused, 0
		default:
			own, err := l.put(slot, r.nodeScores)
			if err != nil {
				return err
			}
			fixed += own
		}
	}
	if l.verdict[slot] == fits {
		l.feasible--
		l.byFixed.remove(slot, l.fixed[slot])
	}
	l.occupation.release(slot)
	l.verdict[slot], l.fixed[slot] = verdict, fixed
	if verdict == fits {
		l.feasible++
		l.byFixed.add(slot, l.kindOf(slot), fixed)
	}
	return nil
}

// put writes the scores of the plugins that were run: those that are normalized into their columns.
// It returns the weighted sum of the others.
func (l *localRows) put(slot cache.Slot, scores []int64) (fixed int64, err error) {
	for i, s := range l.setup.normalized {
		if !s.eligibility {
			l.normalized[i] = set(l.normalized[i], len(l.verdict), slot, scores[s.at])
		}
	}
	return sumFixed(l.setup.localFixed, scores)
}

// rebuild computes all rows.
func (l *localRows) rebuild(ctx context.Context, r *refresher, pod *corev1.Pod) error {
	l.pos = 0
	l.occupation.forget()
	for i := range l.setup.normalized {
		if !l.setup.normalized[i].eligibility {
			l.normalized[i] = nil
		}
	}
	var err error
	for slot := range l.verdict {
		if l.verdict[slot], l.fixed[slot], err = l.judge(r.nodes, slot); err != nil {
			return err
		}
	}
	if l.asks {
		if err := l.rebuildAsked(ctx, r, pod); err != nil {
			return err
		}
	}
	var kinds []int32
	if l.images != nil {
		kinds = l.images.kindOf
	}
	l.feasible = l.byFixed.fill(l.verdict, kinds, l.fixed)
	return nil
}

// kindOf returns the kind of a slot by its images.
func (l *localRows) kindOf(slot cache.Slot) int32 {
	if l.images == nil {
		return 0
	}
	return l.images.kindOf[slot]
}

// rebuildAsked runs the plugins that must be run on all nodes that are not yet refused.
func (l *localRows) rebuildAsked(ctx context.Context, r *refresher, pod *corev1.Pod) error {
	width := len(l.setup.localScores)
	scores, err := l.askAll(ctx, r.plan.local, r, pod, l.verdict, width)
	if err != nil {
		return err
	}
	for slot, verdict := range l.verdict {
		if verdict != fits {
			continue
		}
		own, err := l.put(cache.Slot(slot), scores[slot*width:(slot+1)*width])
		if err != nil {
			return err
		}
		l.fixed[slot] += own
	}
	return nil
}

// even reports whether all nodes of a kind that the pods fit get the same scores from all local
// plugins except those in fixed.
func (l *localRows) even() bool {
	if !l.byFixed.on() || !l.byFixed.pure() {
		return false
	}
	for i, column := range l.normalized {
		if !l.skips[i] && (column != nil || l.setup.normalized[i].normalization == byPlugin) {
			return false
		}
	}
	return true
}

// addBest adds the nodes with the highest total to a set, if the rows are even and a node fits, and
// returns that total: a part of byFixed has the nodes of one kind, which have one score for images.
func (l *localRows) addBest(to *ties) (highest int64) {
	b := &l.byFixed
	found := false
	for part, top := range b.tops {
		if total := top + l.scoreOfKind(part); len(b.best(part)) > 0 && (!found || total > highest) {
			found, highest = true, total
		}
	}
	for part, top := range b.tops {
		if top+l.scoreOfKind(part) == highest {
			to.add(b.best(part))
		}
	}
	return highest + l.common()
}

// scoreOfKind returns the weighted score of ImageLocality for nodes of a kind.
func (l *localRows) scoreOfKind(kind int) int64 {
	if l.images == nil || kind >= len(l.images.scores) {
		return 0
	}
	return l.images.scores[kind]
}

// common returns the sum of the scores that are the same on all nodes, if the rows are even.
func (l *localRows) common() (sum int64) {
	for i := range l.normalized {
		if s := &l.setup.normalized[i]; !l.skips[i] && s.normalization == byMaxReversed {
			sum += fwk.MaxScore * s.weight
		}
	}
	return sum
}

func outOfRange(plugin string, score int64) error {
	return fmt.Errorf("score plugin %q: a score of %d is out of range from %d to %d", plugin, score, fwk.MinScore,
		fwk.MaxScore)
}
