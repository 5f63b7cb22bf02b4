// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// uncached is the work, in one decision, of the plugins whose answers cannot be kept and that have
// no tracker: those for volumes and devices, if the pod has any, and those whose inputs are not
// known. They are run for each node that rows and trackers accept, on the pod's own state. The zero
// value means that there is no such work.
//
// The pod is of the same class as a pod without such work, because keys do not include the inputs
// of these plugins.
type uncached struct {
	// state is the pod's state. It is nil if the plugins were not run. If there are opaque plugins,
	// it is answers: these plugins are run once, whatever the outcome of the decision. Otherwise it
	// is trial, because the writes of the plugins must be undone when the pod takes the scalar
	// path.
	state   fwk.CycleState
	answers *framework.Answers
	trial   *trial
	// failure is the error of an opaque plugin that has failed to score.
	failure error
	// reason tells which plugins have work; None if none of them affects nodes.
	reason Reason
	// filters is true if some of the plugins may refuse nodes, scores if some may score them.
	filters, scores bool
	// byClaims is true if claimCheck can answer for VolumeBinding and NodeVolumeLimits, others if
	// other plugins may refuse nodes, too.
	byClaims, others bool
	// allowed are the nodes that PreFilter allows.
	allowed *fwk.PreFilterResult
	// flat is true if the pass covers all nodes, without groups, for these plugins.
	flat bool
	// scored are the scores of the nodes of the pass by the uncached plugins, nil if these did not
	// score.
	scored []fwk.NodePluginScores
}

// active reports whether the plugins may affect nodes.
func (u *uncached) active() bool { return u.reason != None }

// begin creates the state with which the plugins are run.
func (u *uncached) begin(plan *Plan, state fwk.CycleState) {
	if plan.opaque {
		u.answers = framework.NewAnswers(state, plan.opaques)
		u.state = u.answers
		return
	}
	u.trial = newTrial(state)
	u.state = u.trial
}

// undo makes the state as good as new. The writes of opaque plugins stay, because these plugins are
// not run again.
func (u *uncached) undo() {
	if u.trial != nil {
		u.trial.undo()
	}
}

// allows reports whether PreFilter allows a node.
func (u *uncached) allows(node string) bool {
	return u.allowed.AllNodes() || u.allowed.NodeNames.Has(node)
}

// prepareUncached runs PreFilter of the uncached plugins, and determines what work they have.
func (d *decision) prepareUncached(ctx context.Context, c *class) Reason {
	p, u, pod := d.Plan, &d.uncached, d.Pod
	if !p.opaque && !podfields.HasClaims(pod) && p.perPod.AllSkip(ctx, d.State, pod, p.skipped) {
		return None
	}
	u.begin(p, d.State)
	allowed, status, _ := p.uncached.RunPreFilterPlugins(ctx, u.state, pod)
	if !status.IsSuccess() {
		return Failed // the scalar path reports the status
	}
	skipped := u.state.GetSkipFilterPlugins()
	if c.local.extended && !skipped.Has(p.devices) {
		// The answers of NodeResourcesFit then depend on more than the node.
		return Devices
	}
	u.allowed = allowed
	u.filters = hasOther(p.filters, skipped)
	if u.filters && p.stores != nil && len(d.nominated) == 0 && len(pod.Spec.ResourceClaims) == 0 {
		u.byClaims = d.engine.claims.read(p.stores, d.engine.snapshot, pod)
		u.others = hasOther(p.otherFilters, skipped)
	}
	u.scores = slices.ContainsFunc(p.scorers, func(s uncachedScorer) bool { return s.mayScore(skipped) })
	if u.filters || u.scores || !allowed.AllNodes() {
		u.reason = p.uncachedReason(pod)
	}
	return None
}

// filterUncached collects the nodes that the pod fits if uncached plugins affect nodes.
func (d *decision) filterUncached(ctx context.Context) error {
	d.uncached.flat = true
	if d.uncached.allowed.AllNodes() {
		d.filterCached(nil)
	} else {
		d.evaluated = d.filterAllowed(d.uncached.allowed.NodeNames)
	}
	if err := d.leaveOutNominated(ctx); err != nil {
		return err
	}
	unasked, err := d.runUncachedFilters(ctx, d.Enough)
	d.feasible = len(d.engine.pass.feasible)
	d.evaluated -= unasked
	return err
}

// filterAllowed is filterCached for the nodes with the given names. It returns how many of them
// exist.
func (d *decision) filterAllowed(names sets.Set[string]) int {
	e, p := d.engine, &d.engine.pass
	p.feasible, p.sizes = p.feasible[:0], nil
	existing := 0
	for name := range names {
		slot, ok := e.snapshot.SlotOf(name)
		if !ok {
			continue
		}
		existing++
		if d.class.local.verdict[slot] == fits {
			p.feasible = append(p.feasible, slot)
		}
	}
	slices.Sort(p.feasible)
	e.refresher.examined += len(p.feasible)
	p.keep(d.class)
	return existing
}

// runUncachedFilters runs the Filter plugins on the remaining nodes, in parallel, until they accept
// enough (0: on all), and drops the others. It returns the number of nodes on which it has not run
// the plugins.
func (d *decision) runUncachedFilters(ctx context.Context, enough int) (unasked int, err error) {
	e, u := d.engine, &d.uncached
	ask := u.filters
	if u.byClaims {
		unknown := 0
		e.pass.feasible, unknown = e.claims.judge(e.snapshot, e.pass.feasible)
		ask = unknown > 0 || u.others
		if !ask && !u.scores {
			return 0, nil
		}
	}
	var filter nodeFilter
	if ask {
		filter = d.uncachedFilter()
	}
	e.pass.feasible, unasked, err = e.search.run(ctx, d.Plan.uncached.Parallelizer(), e.pass.feasible, enough, filter)
	return unasked, err
}

// uncachedFilter returns a function that runs, on a node, the Filter plugins that are not known to
// accept it.
func (d *decision) uncachedFilter() nodeFilter {
	run := d.Plan.uncached.RunFilterPlugins
	if len(d.nominated) > 0 {
		run = d.Plan.uncached.RunFilterPluginsWithNominatedPods
	}
	return func(ctx context.Context, slot cache.Slot) *fwk.Status {
		switch info := d.engine.snapshot.Info(slot); {
		case !d.acceptedByClaims(slot):
			return run(ctx, d.uncached.state, d.Pod, info)
		case d.uncached.others:
			return d.Plan.notOfClaims.RunFilterPlugins(ctx, d.uncached.state, d.Pod, info)
		}
		return nil
	}
}

// acceptedByClaims reports whether VolumeBinding and NodeVolumeLimits are known to accept a node,
// so that they were not run on it.
func (d *decision) acceptedByClaims(slot cache.Slot) bool {
	return d.uncached.byClaims && d.engine.claims.accepted.has(slot)
}

// settle runs the plugins that were skipped on the selected node, because they leave state that
// Reserve needs. If it returns false, the state is as good as new.
func (d *decision) settle(ctx context.Context, slot cache.Slot) bool {
	if d.uncached.state == nil || !d.acceptedByClaims(slot) {
		return true
	}
	status := d.Plan.ofClaims.RunFilterPlugins(ctx, d.uncached.state, d.Pod, d.engine.snapshot.Info(slot))
	if !status.IsSuccess() {
		d.uncached.undo()
		return false
	}
	return true
}

// scoreUncached adds the scores of the uncached plugins to the totals of the nodes that fit.
func (d *decision) scoreUncached(ctx context.Context) error {
	if !d.uncached.scores {
		return nil
	}
	err := d.addUncachedScores(ctx)
	if d.Plan.opaque {
		d.uncached.failure = err
	}
	return err
}

func (d *decision) addUncachedScores(ctx context.Context) error {
	p, u, feasible := d.Plan, &d.uncached, d.engine.pass.feasible
	nodes := make([]fwk.NodeInfo, len(feasible)) // a new slice: plugins may keep it in the state
	for i, slot := range feasible {
		nodes[i] = d.engine.snapshot.Info(slot)
	}
	if status := p.uncached.RunPreScorePlugins(ctx, u.state, d.Pod, nodes); !status.IsSuccess() {
		return statusError(status)
	}
	skippedFilters, skipped := u.state.GetSkipFilterPlugins(), u.state.GetSkipScorePlugins()
	for i := range p.scorers {
		if s := &p.scorers[i]; !s.mayScore(skippedFilters) {
			skipped.Insert(s.name)
		}
	}
	scores, status := p.uncached.RunScorePlugins(ctx, u.state, d.Pod, nodes)
	if !status.IsSuccess() {
		return statusError(status)
	}
	for i := range scores {
		d.engine.pass.totals[i] += scores[i].TotalScore
	}
	u.scored = scores
	return nil
}
