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
//   - constraintRows, shared with all pods of the same tolerations, node selector and node
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
	key string
	gen *instance
	// asker is of the plugins of Plan.local. asks says that they are to be asked about nodes.
	asker
	asks bool
	// constraints and demand are held, and given back when the rows go.
	constraints *constraintRows
	demand      *demand
	// extended says that the pods ask for resources that devices may stand behind.
	extended bool
	// classes is the number of classes that use the rows.
	classes int
	// twins are those of PodTopologySpread that classes may share, by cross.key, and groups all
	// that are in use.
	twins  map[string]*cross
	groups []*groups
	// bytes is what the rows were last accounted with.
	bytes int

	// pos is the position in the log up to which the rows are right; 0 if they never were.
	pos uint64
	// seen says that the rows were used before. Columns of rows that were used but once are lent to
	// others.
	seen bool
	columns
	// normalised has the scores of Plan.normalised, before normalisation. A column that is
	// nil is all zeros. Those of constraints are its own.
	normalised [][]int64
	// skips says for each of Plan.normalised whether PreScore skipped: it scores nothing
	// then, not even 0.
	skips  []bool
	images imageColumn
}

// newLocalRows asks the local plugins what they make of the pods before they have seen a node. The
// key of the pod is that of e.key.
func (e *Engine) newLocalRows(ctx context.Context, g *instance, key string, pod *corev1.Pod) (*localRows, error) {
	l := &localRows{key: key, gen: g, extended: requestsExtended(pod)}
	var err error
	if l.asker, err = newAsker(ctx, g.local, pod); err != nil {
		return nil, err
	}
	if l.constraints, err = g.holdConstraints(ctx, e.key.Bytes()[:e.key.constraints], pod); err != nil {
		return nil, err
	}
	l.named = l.named || l.constraints.named
	if l.named {
		return l, nil
	}
	l.demand = g.resources.demandOf(pod, &e.nodes, e.snapshot)
	skippedScores := l.state.GetSkipScorePlugins()
	l.asks = hasOther(g.localFilters, l.state.GetSkipFilterPlugins()) || hasOther(g.localScores, skippedScores)
	l.normalised = make([][]int64, len(g.normalised))
	for _, s := range g.normalised {
		skipped := skippedScores
		if s.constraints {
			skipped = l.constraints.state.GetSkipScorePlugins()
		}
		l.skips = append(l.skips, skipped.Has(s.name))
	}
	if g.imageWeight != 0 {
		l.images.names = imageNames(nil, pod)
		l.images.known = make([]imageCount, len(l.images.names))
	}
	return l, nil
}

// hasOther says whether one of the names is not in the set.
func hasOther(names []string, set sets.Set[string]) bool {
	for _, name := range names {
		if !set.Has(name) {
			return true
		}
	}
	return false
}

// sync brings the rows up to the snapshot. pod is any that has the key. After an error the rows are
// of no use.
func (l *localRows) sync(ctx context.Context, e *Engine, pod *corev1.Pod) error {
	if err := l.constraints.sync(ctx, e, pod); err != nil {
		return err
	}
	e.nodes.sync(e.snapshot)
	e.lend(l)
	l.state.SetRecordPluginMetrics(e.record)
	changes, ok := e.snapshot.Log().Since(l.pos)
	l.resize(e.snapshot.Slots())
	if !ok || 2*len(changes) > e.snapshot.Slots() {
		if err := l.rebuild(ctx, e, pod); err != nil {
			return err
		}
	} else {
		e.beginMarks()
		for _, change := range changes {
			if !e.mark(change.Slot) {
				continue
			}
			if err := l.refresh(ctx, e, change.Slot, pod); err != nil {
				return err
			}
		}
	}
	l.pos = e.snapshot.Log().End()
	return l.syncImages(ctx, e, pod, changes, !ok)
}

// resize makes the columns as long as there are slots.
func (l *localRows) resize(slots int) {
	for i := range l.gen.normalised {
		if l.gen.normalised[i].constraints {
			l.normalised[i] = l.constraints.normalised[i]
		}
	}
	if l.byFixed.highest() != l.gen.highestFixed { // it is new, or has the columns of another profile's
		l.byFixed = newBuckets(l.gen.highestFixed)
	}
	l.byFixed.grow(slots)
	if len(l.verdict) == slots {
		return
	}
	l.verdict = fitted(l.verdict, slots, noNode)
	l.fixed = fitted(l.fixed, slots, 0)
	for i, column := range l.normalised {
		if column != nil && !l.gen.normalised[i].constraints {
			l.normalised[i] = fitted(column, slots, 0)
		}
	}
	if l.images.scores != nil {
		l.images.scores = fitted(l.images.scores, slots, 0)
	}
}

// judge works out the verdict on a slot and the weighted sum of the scores that are not normalised,
// as far as no plugin has to be asked.
func (l *localRows) judge(e *Engine, slot int) (verdict uint16, fixed int64, err error) {
	if verdict = l.constraints.verdict[slot]; verdict != fits {
		return verdict, 0, nil
	}
	node := &e.nodes.nodes[slot]
	if !l.demand.fits(node, slot) {
		return refused, 0, nil
	}
	fixed, err = l.demand.score(node, slot)
	if l.constraints.fixed != nil {
		fixed += l.constraints.fixed[slot]
	}
	return fits, fixed, err
}

// refresh works out the row of the node in a slot.
func (l *localRows) refresh(ctx context.Context, e *Engine, slot cache.Slot, pod *corev1.Pod) error {
	verdict, fixed, err := l.judge(e, int(slot))
	if err != nil {
		return err
	}
	if l.asks && verdict == fits {
		e.rowScores = resized(e.rowScores, len(l.gen.localScores))
		fit, err := l.ask(ctx, e.snapshot.Info(slot), pod, e.rowScores)
		switch {
		case err != nil:
			return err
		case !fit:
			verdict, fixed = refused, 0
		default:
			own, err := l.put(slot, e.rowScores)
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

// put writes those scores of the plugins that were asked into the columns which are normalised, and
// returns the weighted sum of the others.
func (l *localRows) put(slot cache.Slot, scores []int64) (fixed int64, err error) {
	for i, s := range l.gen.normalised {
		if !s.constraints {
			l.normalised[i] = set(l.normalised[i], len(l.verdict), slot, scores[s.at])
		}
	}
	return sumFixed(l.gen.localFixed, scores)
}

// rebuild works out all rows.
func (l *localRows) rebuild(ctx context.Context, e *Engine, pod *corev1.Pod) error {
	l.pos = 0
	for i := range l.gen.normalised {
		if !l.gen.normalised[i].constraints {
			l.normalised[i] = nil
		}
	}
	var err error
	for slot := range l.verdict {
		if l.verdict[slot], l.fixed[slot], err = l.judge(e, slot); err != nil {
			return err
		}
	}
	if l.asks {
		if err := l.rebuildAsked(ctx, e, pod); err != nil {
			return err
		}
	}
	l.feasible = l.byFixed.fill(l.verdict, l.fixed)
	return nil
}

// rebuildAsked asks the plugins that have to be asked about all nodes that are left.
func (l *localRows) rebuildAsked(ctx context.Context, e *Engine, pod *corev1.Pod) error {
	width := len(l.gen.localScores)
	scores, err := l.askAll(ctx, e, pod, l.verdict, width)
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

// even says that all nodes that the pods fit get the same scores from all local plugins but those
// in fixed.
func (l *localRows) even() bool {
	if !l.byFixed.on() || l.images.scores != nil {
		return false
	}
	for i, column := range l.normalised {
		if !l.skips[i] && (column != nil || l.gen.normalised[i].normalization == byPlugin) {
			return false
		}
	}
	return true
}

func outOfRange(plugin string, score int64) error {
	return fmt.Errorf("score plugin %q: a score of %d is out of range from %d to %d", plugin, score, fwk.MinScore, fwk.MaxScore)
}
