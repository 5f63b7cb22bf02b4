// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"context"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Top returns the weighted scores, plugin by plugin, of the n nodes with the highest totals. The
// node that was taken, or else one of the best, comes first; nodes with equal totals are in the
// order of their names. The only node that fits has no scores.
//
// A decision keeps only sums of scores. Top takes a pass over all nodes for each plugin whose
// scores are normalized, and changes nothing that the next decision reads. If the uncached plugins
// were run on the best nodes first (Request.Draw), Top runs them on some more of these, until they
// accept n.
func (f Fit) Top(ctx context.Context, n int) ([]fwk.NodePluginScores, error) {
	d := f.of.lent()
	slot := d.best.at(d.taken)
	if d.unscored() {
		return []fwk.NodePluginScores{{Name: d.nodeName(slot)}}, nil
	}
	if d.late {
		if err := d.searchMore(ctx, n); err != nil {
			return nil, err
		}
	}
	if err := d.totalAll(ctx); err != nil {
		return nil, err
	}
	t := &top{decision: d}
	t.choose(slot, n)
	return t.scored(ctx)
}

// Scores returns the weighted scores, plugin by plugin, of the named nodes that the pod fits, in
// the order of the names. Its cost is that of Top.
func (f Fit) Scores(ctx context.Context, names ...string) ([]fwk.NodePluginScores, error) {
	d := f.of.lent()
	if d.unscored() {
		slot := d.best.at(0)
		if slices.Contains(names, d.nodeName(slot)) {
			return []fwk.NodePluginScores{{Name: d.nodeName(slot)}}, nil
		}
		return nil, nil
	}
	if err := d.totalAll(ctx); err != nil {
		return nil, err
	}
	t := &top{decision: d}
	for _, name := range names {
		if slot, ok := d.engine.snapshot.SlotOf(name); ok {
			if i := slices.Index(d.pass.feasible, slot); i >= 0 {
				t.at = append(t.at, i)
			}
		}
	}
	t.name()
	return t.scored(ctx)
}

// top are nodes of a decision with their scores.
type top struct {
	*decision
	// at are the positions of the nodes in pass.feasible, and nodes their scores.
	at    []int
	nodes []fwk.NodePluginScores
}

// choose sets the nodes, with their totals.
func (t *top) choose(first cache.Slot, n int) {
	p := t.pass
	order := func(a, b int) int {
		switch slotA, slotB := p.feasible[a], p.feasible[b]; {
		case slotA == slotB:
			return 0
		case slotA == first:
			return -1
		case slotB == first:
			return 1
		case p.totals[a] != p.totals[b]:
			return cmp.Compare(p.totals[b], p.totals[a])
		default:
			return strings.Compare(t.nodeName(slotA), t.nodeName(slotB))
		}
	}
	t.at = make([]int, 0, n+1)
	for i := range p.feasible {
		if place, _ := slices.BinarySearchFunc(t.at, i, order); place < n {
			t.at = slices.Insert(t.at, place, i)
			t.at = t.at[:min(n, len(t.at))]
		}
	}
	t.name()
}

// name makes the list of the nodes, with their totals.
func (t *top) name() {
	p := t.pass
	for _, i := range t.at {
		t.nodes = append(t.nodes, fwk.NodePluginScores{Name: t.nodeName(p.feasible[i]), TotalScore: p.totals[i]})
	}
}

// scored adds the scores of all plugins to the nodes, and returns them.
func (t *top) scored(ctx context.Context) ([]fwk.NodePluginScores, error) {
	if err := t.addNormalized(ctx); err != nil {
		return nil, err
	}
	t.addTrackers()
	for i := range t.nodes {
		if err := t.addFixed(ctx, i); err != nil {
			return nil, err
		}
	}
	t.addUncached()
	return t.nodes, nil
}

func (t *top) add(node int, plugin string, score int64) {
	t.nodes[node].Scores = append(t.nodes[node].Scores, fwk.PluginScore{Name: plugin, Score: score})
}

// addNormalized adds the scores of the plugins that normalize, which depend on all nodes.
func (t *top) addNormalized(ctx context.Context) error {
	rows := t.class.local
	scores := make([]int64, len(t.pass.feasible))
	for i := range rows.normalized {
		if rows.skips[i] {
			continue
		}
		clear(scores)
		if err := t.pass.addNormalized(ctx, scores, rows, i, &t.Request); err != nil {
			return err
		}
		for node, at := range t.at {
			t.add(node, rows.setup.normalized[i].name, scores[at])
		}
	}
	return nil
}

// addTrackers adds the scores of PodTopologySpread and InterPodAffinity.
func (t *top) addTrackers() {
	p := t.pass
	p.scores = resized(p.scores, len(p.feasible))
	for _, x := range t.class.trackers {
		if x.weight == 0 || !x.Score(p.feasible, p.sizes, p.scores) {
			continue
		}
		for node, at := range t.at {
			t.add(node, x.plugin, p.scores[at]*x.weight)
		}
	}
}

// addFixed adds the scores that depend on the node alone. It runs the plugins of which only the sum
// is kept.
func (t *top) addFixed(ctx context.Context, node int) error {
	slot := t.pass.feasible[t.at[node]]
	rows := t.class.local
	for i := range rows.demand.scores {
		s := &rows.demand.scores[i]
		t.add(node, s.plugin, s.of(&t.engine.nodes.nodes[slot], int(slot))*s.weight)
	}
	if rows.images != nil {
		t.add(node, imagelocality.Name, rows.images.of(slot))
	}
	if err := t.addScorers(ctx, node, &rows.eligibility.runner, t.Plan.eligibility,
		t.Plan.eligibilityFixed); err != nil {
		return err
	}
	return t.addScorers(ctx, node, &rows.runner, t.Plan.local, t.Plan.localFixed)
}

// addScorers runs plugins on a node, and adds the scores of some of them.
func (t *top) addScorers(ctx context.Context, node int, run *runner, plugins *framework.Framework,
	scorers []scorer) error {
	if len(scorers) == 0 {
		return nil
	}
	info := t.engine.snapshot.Info(t.pass.feasible[t.at[node]])
	scores := make([]int64, len(plugins.ScorePlugins()))
	if _, err := run.ask(ctx, plugins, info, t.like, scores); err != nil {
		return err
	}
	for _, s := range scorers {
		t.add(node, s.name, scores[s.at]*s.weight)
	}
	return nil
}

// addUncached adds the scores of the plugins that were run for this pod, and that of VolumeBinding
// for the nodes on which it was not.
func (t *top) addUncached() {
	if t.uncached.early {
		for node, at := range t.at {
			t.nodes[node].Scores = append(t.nodes[node].Scores, t.engine.early.of(t.pass.feasible[at]).Scores...)
		}
	}
	claims := t.uncached.claims
	ofClaims := claims != nil && claims.scoresNodes()
	for node, at := range t.at {
		slot := t.pass.feasible[at]
		known := ofClaims && claims.accepts(slot)
		if t.uncached.scored != nil {
			for _, s := range t.uncached.scored[at].Scores {
				if !known || s.Name != claims.scorer.plugin {
					t.add(node, s.Name, s.Score)
				}
			}
		}
		if known {
			t.add(node, claims.scorer.plugin, claims.score(slot))
		}
	}
}
