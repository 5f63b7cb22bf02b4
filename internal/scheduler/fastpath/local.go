// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Verdicts of the local filters on a slot.
const (
	fits    uint16 = iota // the local filters let the pod pass
	noNode                // there is no node in the slot
	refused               // they do not
)

// localRows is what the plugins that look at one node at a time say of the pods with one local key,
// for each node. It is put together from
//
//   - eligibilityRows, shared with all pods of the same tolerations, node selector and node
//     affinity,
//   - what NodeResourcesFit and NodeResourcesBalancedAllocation would say, worked out from the
//     nodeTable (demand),
//   - what the remaining plugins say when they are asked, if they have anything to say about these
//     pods,
//
// and kept up through the snapshot's change log: what a node's row says holds until the log
// mentions the node. All that is in the columns follows from the snapshot alone, so it does not
// matter how often they are made anew.
type localRows struct {
	key      string
	instance *instance
	// runner is that of Plan.local. asks is true if they have to be run on nodes.
	runner
	asks bool
	// eligibility and demand are held, and given back when the rows go.
	eligibility *eligibilityRows
	demand      *demand
	// extended is true if the pods ask for resources that devices may stand behind.
	extended bool
	// classes is the number of classes that use the rows.
	classes int
	// spreadTrackers are those of PodTopologySpread that classes may share, by tracker.key, and
	// groups all that are in use.
	spreadTrackers map[string]*tracker
	groups         []*groups
	// bytes is what the rows were last accounted with.
	bytes int

	// pos is the position in the log up to which the rows are right; 0 if they never were.
	pos uint64
	// seen is true if the rows were used before. Columns of rows that were used but once are lent
	// to others.
	seen bool
	columns
	// normalized has the scores of Plan.normalized, before normalization. A column that is
	// nil is all zeros. Those of constraints are its own.
	normalized [][]int64
	// skips says for each of Plan.normalized whether PreScore skipped: it scores nothing
	// then, not even 0.
	skips  []bool
	images imageColumn
}

// newLocalRows has the local plugins prepare for the pods, before they have seen a node. The pod's
// key was just written.
func newLocalRows(ctx context.Context, i *instance, key *keyWriter, pod *corev1.Pod, r *refresher) (*localRows, error) {
	l := &localRows{key: string(key.localPart()), instance: i, extended: requestsExtended(pod)}
	var err error
	if l.runner, err = newRunner(ctx, i.local, pod); err != nil {
		return nil, err
	}
	if l.eligibility, err = i.holdEligibility(ctx, key.eligibilityPart(), pod); err != nil {
		return nil, err
	}
	l.named = l.named || l.eligibility.named
	if l.named {
		return l, nil
	}
	l.demand = i.resources.demandOf(pod, r.nodes, r.snapshot)
	skippedScores := l.state.GetSkipScorePlugins()
	l.asks = hasOther(i.localFilters, l.state.GetSkipFilterPlugins()) || hasOther(i.localScores, skippedScores)
	l.normalized = make([][]int64, len(i.normalized))
	for _, s := range i.normalized {
		skipped := skippedScores
		if s.eligibility {
			skipped = l.eligibility.state.GetSkipScorePlugins()
		}
		l.skips = append(l.skips, skipped.Has(s.name))
	}
	if i.imageWeight != 0 {
		l.images.names = imageNames(nil, pod)
		l.images.known = make([]imageCount, len(l.images.names))
	}
	return l, nil
}

// hasOther reports whether one of the names is not in the set.
func hasOther(names []string, set sets.Set[string]) bool {
	for _, name := range names {
		if !set.Has(name) {
			return true
		}
	}
	return false
}

// sync has the rows catch up with the snapshot. pod is any that has the key. After an error the
// rows are of no use.
func (l *localRows) sync(ctx context.Context, r *refresher, pod *corev1.Pod) error {
	if err := l.eligibility.sync(ctx, r, pod); err != nil {
		return err
	}
	r.nodes.sync(r.snapshot)
	r.classes.lend(l)
	l.state.SetRecordPluginMetrics(r.recordMetrics)
	changes, ok := r.snapshot.Log().Since(l.pos)
	l.resize(r.snapshot.Slots())
	if err := l.update(ctx, r, pod, changes, ok); err != nil {
		return err
	}
	l.pos = r.snapshot.Log().End()
	return l.syncImages(ctx, r, pod, changes, !ok)
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

// resize makes the columns as long as there are slots.
func (l *localRows) resize(slots int) {
	for i := range l.instance.normalized {
		if l.instance.normalized[i].eligibility {
			l.normalized[i] = l.eligibility.normalized[i]
		}
	}
	// They are new, or the columns were another profile's.
	if l.byFixed.highest() != l.instance.highestFixed {
		l.byFixed = newBuckets(l.instance.highestFixed)
	}
	l.byFixed.grow(slots)
	if len(l.verdict) == slots {
		return
	}
	l.verdict = fitted(l.verdict, slots, noNode)
	l.fixed = fitted(l.fixed, slots, 0)
	for i, column := range l.normalized {
		if column != nil && !l.instance.normalized[i].eligibility {
			l.normalized[i] = fitted(column, slots, 0)
		}
	}
	if l.images.scores != nil {
		l.images.scores = fitted(l.images.scores, slots, 0)
	}
}

// judge works out the verdict on a slot and the weighted sum of the scores that are not normalized,
// as far as no plugin has to be run.
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

// refresh works out the row of the node in a slot.
func (l *localRows) refresh(ctx context.Context, r *refresher, slot cache.Slot, pod *corev1.Pod) error {
	verdict, fixed, err := l.judge(r.nodes, int(slot))
	if err != nil {
		return err
	}
	if l.asks && verdict == fits {
		r.nodeScores = resized(r.nodeScores, len(l.instance.localScores))
		fit, err := l.ask(ctx, r.snapshot.Info(slot), pod, r.nodeScores)
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
	l.verdict[slot], l.fixed[slot] = verdict, fixed
	if verdict == fits {
		l.feasible++
		l.byFixed.add(slot, fixed)
	}
	return nil
}

// put writes those scores of the plugins that were asked into the columns which are normalized, and
// returns the weighted sum of the others.
func (l *localRows) put(slot cache.Slot, scores []int64) (fixed int64, err error) {
	for i, s := range l.instance.normalized {
		if !s.eligibility {
			l.normalized[i] = set(l.normalized[i], len(l.verdict), slot, scores[s.at])
		}
	}
	return sumFixed(l.instance.localFixed, scores)
}

// rebuild works out all rows.
func (l *localRows) rebuild(ctx context.Context, r *refresher, pod *corev1.Pod) error {
	l.pos = 0
	for i := range l.instance.normalized {
		if !l.instance.normalized[i].eligibility {
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
	l.feasible = l.byFixed.fill(l.verdict, l.fixed)
	return nil
}

// rebuildAsked runs the plugins that have to be run on all nodes that are left.
func (l *localRows) rebuildAsked(ctx context.Context, r *refresher, pod *corev1.Pod) error {
	width := len(l.instance.localScores)
	scores, err := l.askAll(ctx, r, pod, l.verdict, width)
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

// even reports whether all nodes that the pods fit get the same scores from all local plugins but
// those in fixed.
func (l *localRows) even() bool {
	if !l.byFixed.on() || l.images.scores != nil {
		return false
	}
	for i, column := range l.normalized {
		if !l.skips[i] && (column != nil || l.instance.normalized[i].normalization == byPlugin) {
			return false
		}
	}
	return true
}

func outOfRange(plugin string, score int64) error {
	return fmt.Errorf("score plugin %q: a score of %d is out of range from %d to %d", plugin, score, fwk.MinScore, fwk.MaxScore)
}
