// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
	plan     *Plan
	pod      *corev1.Pod
	snapshot *cache.Snapshot
	// plugins are the plugins with PreFilter and Filter: Plan.uncached or Plan.delegated. After
	// PreFilter, it may be without DynamicResources: see devices. notOfClaims are the plugins that
	// are left if claims answers for the others.
	plugins, notOfClaims *framework.Framework
	// state is the pod's state. It is nil if the plugins were not run. It is answers for opaque
	// plugins, which are run once, whatever the outcome of the decision, and for those for devices,
	// of which a second run would double the cost of a pod that fits nowhere. Otherwise it is
	// undoable, because the writes of the plugins must be undone when the pod takes the scalar
	// path.
	state    fwk.CycleState
	answers  *framework.Answers
	undoable *undoableState
	// failure is the error of an opaque plugin that has failed to score.
	failure error
	// reason tells which plugins have work; None if none of them affects nodes.
	reason Reason
	// filters is true if some of the plugins may refuse nodes, scores if some may score them.
	filters, scores bool
	// early is true if plugins of kind early score the nodes: see earlyScores.
	early bool
	// claims is nil unless it can answer for VolumeBinding, VolumeZone and NodeVolumeLimits. others
	// is true if other plugins may refuse nodes, too.
	claims *claimCheck
	others bool
	// devices is nil unless it can answer for DynamicResources.
	devices *deviceCheck
	// allowed are the nodes that PreFilter allows.
	allowed *fwk.PreFilterResult
	// narrow means that the state of DynamicResources knows the devices of some nodes only: see
	// narrow.go.
	narrow bool
	// scored are the scores of the nodes of the pass by the uncached plugins, nil if these did not
	// score.
	scored []fwk.NodePluginScores
}

// newUncached creates the state with which the plugins are run for a pod.
func newUncached(r *Request, snapshot *cache.Snapshot, delegated bool) uncached {
	u := uncached{plan: r.Plan, pod: r.Pod, snapshot: snapshot, plugins: r.Plan.uncached,
		notOfClaims: r.Plan.notOfClaims}
	remembered := r.Plan.remembered
	if delegated {
		u.plugins, remembered = r.Plan.delegated, r.Plan.rememberedOfDelegated
	}
	if r.Plan.opaque || delegated || len(r.Pod.Spec.ResourceClaims) > 0 {
		u.answers = framework.NewAnswers(r.State, remembered, r.Plan.opaques)
		u.state = u.answers
		return u
	}
	u.undoable = newUndoable(r.State)
	u.state = u.undoable
	return u
}

// active reports whether the plugins may affect nodes.
func (u *uncached) active() bool { return u.reason != None }

// undo makes the state as good as new. The writes of the plugins whose answers are remembered stay,
// because these plugins are not run again.
func (u *uncached) undo(ctx context.Context) {
	if u.undoable != nil {
		u.undoable.undo()
	}
	switch {
	case u.devices != nil && u.devices.read != 0:
		u.rememberRefusals(ctx)
	case u.narrow:
		u.answers.Forget(u.plan.devices)
	}
}

// allows reports whether PreFilter allows a node.
func (u *uncached) allows(node string) bool {
	return u.allowed.AllNodes() || u.allowed.NodeNames.Has(node)
}

// prepareUncached runs PreFilter of the uncached plugins, and determines what work they have.
func (d *decision) prepareUncached(ctx context.Context, c *class) Reason {
	p, pod := d.Plan, d.Pod
	if !d.delegated && !p.opaque && !podfields.HasClaims(pod) && p.perPod.AllSkip(ctx, d.State, pod, p.skipped) {
		if p.scoresEarly {
			d.uncached = uncached{plan: p, pod: pod, snapshot: d.engine.snapshot, early: true, reason: Devices}
		}
		return None
	}
	d.uncached = newUncached(&d.Request, d.engine.snapshot, d.delegated)
	u := &d.uncached
	u.early = p.scoresEarly
	claims, known := p.claimsOf(pod)
	allowed, status := d.preFilterUncached(ctx)
	if !status.IsSuccess() {
		return Failed // the scalar path reports the status
	}
	skipped := u.state.GetSkipFilterPlugins()
	u.narrow = u.narrow && !skipped.Has(p.devices)
	if c.local.extended && !d.delegated && !skipped.Has(p.devices) {
		// The answers of NodeResourcesFit then depend on more than the node.
		return Devices
	}
	u.allowed = allowed
	if known && p.devices != "" && !skipped.Has(p.devices) {
		d.answerForDevices(claims)
	}
	if u.devices != nil {
		skipped = skipped.Union(sets.New(p.devices))
	}
	u.filters = d.delegated || !skipped.HasAll(p.filters...)
	// claims does not answer for NodeResourcesFit.
	if simple := &d.engine.lent.claims; u.filters && simple.simple && !d.delegated {
		u.claims, u.others = simple, !skipped.HasAll(p.otherFilters...)
	}
	u.scores = slices.ContainsFunc(p.scorers, func(s uncachedScorer) bool {
		return s.mayScore(skipped) && (!s.ofClaims || u.claims == nil || len(u.claims.static) > 0) &&
			(s.name != p.devices || !known || hasAlternatives(claims))
	})
	if u.filters || u.scores || u.devices != nil || u.early || !allowed.AllNodes() {
		u.reason = p.uncachedReason(pod)
	}
	return None
}

func (d *decision) preFilterUncached(ctx context.Context) (*fwk.PreFilterResult, *fwk.Status) {
	defer d.narrow()()
	allowed, status, _ := d.uncached.plugins.RunPreFilterPlugins(ctx, d.uncached.state, d.Pod)
	return allowed, status
}

// leaveOutClaims makes the uncached plugins inactive if claims know that they accept all nodes that
// the rows do, so that nodes need not be looked at one by one.
func (d *decision) leaveOutClaims() {
	u := &d.uncached
	if u.claims != nil && !u.others && !u.scores && !u.early && u.devices == nil && u.allowed.AllNodes() &&
		!d.nominatedFit() && u.claims.acceptAll(d.class.local) {
		u.reason = None
	}
}

// nominatedFit reports whether the rows accept a node with nominated pods, whose claims count, too.
func (d *decision) nominatedFit() bool {
	for name := range d.nominated.All {
		if slot, ok := d.engine.snapshot.SlotOf(name); ok && d.class.local.verdict[slot] == fits {
			return true
		}
	}
	return false
}

// filterUncached collects the nodes that the pod fits if uncached plugins affect nodes.
func (d *decision) filterUncached(ctx context.Context) error {
	if d.uncached.allowed.AllNodes() {
		d.filterCached(nil)
	} else {
		d.evaluated = d.filterAllowed(d.uncached.allowed.NodeNames)
	}
	unasked, err := d.keepUncached(ctx, d.Enough)
	d.feasible = len(d.pass.feasible)
	d.evaluated -= unasked
	d.partial = unasked > 0
	return err
}

// filterAllowed is filterCached for the nodes with the given names. It returns how many of them
// exist.
func (d *decision) filterAllowed(names sets.Set[string]) int {
	p := d.pass
	p.feasible, p.sizes = p.feasible[:0], nil
	existing := 0
	for name := range names {
		slot, ok := d.engine.snapshot.SlotOf(name)
		if !ok {
			continue
		}
		existing++
		if d.class.local.verdict[slot] == fits {
			p.feasible = append(p.feasible, slot)
		}
	}
	if own := d.Pod.Status.NominatedNodeName; !names.Has(own) && d.exists(own) {
		existing++ // decideNominated has evaluated it
	}
	slices.Sort(p.feasible)
	d.refresher.examined += len(p.feasible)
	d.keep()
	return existing
}

// keepUncached runs the uncached Filter plugins on the pass's nodes, in parallel, until they accept
// enough (0: on all), and drops the others. It returns the number of nodes on which it has not run
// the plugins.
func (d *decision) keepUncached(ctx context.Context, enough int) (unasked int, err error) {
	u, p := &d.uncached, d.pass
	ask := u.filters
	if u.claims != nil {
		unknown := 0
		p.feasible, unknown = u.claims.judge(p.feasible)
		askClaims := d.askNominated() || unknown > 0
		ask = askClaims || u.others
		u.scores = u.scores || askClaims && u.claims.scoresNodes()
	}
	if u.devices != nil {
		without := enough
		if ask {
			without = 0
		}
		if p.feasible, unasked, err = d.judgeDevices(ctx, u.state, p.feasible, without); err != nil {
			return 0, err
		}
	}
	if !ask && !u.scores && (u.claims != nil || u.devices != nil) {
		return unasked, nil
	}
	var filter nodeFilter
	if ask {
		if u.devices == nil {
			if err := u.know(ctx, u.state, p.feasible); err != nil {
				return 0, err
			}
		}
		filter = d.uncachedFilter(u.state)
	}
	nodes, more, err := d.engine.search.run(ctx, u.plan.uncached.Parallelizer(), p.feasible, enough, filter)
	p.feasible = nodes
	return unasked + more, err
}

// uncachedFilter returns a function that runs, on a node and with this state, the uncached Filter
// plugins that are not known to accept it.
func (d *decision) uncachedFilter(state fwk.CycleState) nodeFilter {
	u := &d.uncached
	run := u.plugins.RunFilterPlugins
	if d.nominated.Any() {
		run = u.plugins.RunFilterPluginsWithNominatedPods
	}
	return func(ctx context.Context, slot cache.Slot) *fwk.Status {
		switch info := u.snapshot.Info(slot); {
		case !u.acceptedByClaims(slot):
			return run(ctx, state, u.pod, info)
		case u.others:
			return u.notOfClaims.RunFilterPlugins(ctx, state, u.pod, info)
		}
		return nil
	}
}

// acceptedByClaims reports whether the plugins that claims answers for are known to accept a node,
// so that they were not run on it.
func (u *uncached) acceptedByClaims(slot cache.Slot) bool {
	return u.claims != nil && u.claims.accepts(slot)
}

// askNominated makes the plugins run on the nodes with nominated pods, whose claims count, too. It
// reports whether there are any.
func (d *decision) askNominated() bool {
	found, accepted := false, &d.uncached.claims.accepted
	for name := range d.nominated.All {
		if slot, ok := d.engine.snapshot.SlotOf(name); ok && accepted.has(slot) {
			accepted.remove(slot)
			found = true
		}
	}
	return found
}

// settle runs the plugins that were skipped on the selected node, because they leave state that
// Reserve needs. If it returns false, the state is as good as new.
func (u *uncached) settle(ctx context.Context, slot cache.Slot) bool {
	if u.devices != nil && !u.settleDevices(ctx, slot) {
		u.undo(ctx)
		return false
	}
	if !u.acceptedByClaims(slot) {
		return true
	}
	status := u.plan.ofClaims.RunFilterPlugins(ctx, u.state, u.pod, u.snapshot.Info(slot))
	if !status.IsSuccess() {
		u.undo(ctx)
		return false
	}
	return true
}

// score adds the scores of the plugins to the totals of the pass's nodes. The score of
// VolumeBinding is 0 for the nodes on which it was not run.
func (u *uncached) score(ctx context.Context, p *pass) error {
	if u.claims != nil && u.claims.scoresNodes() {
		for i, slot := range p.feasible {
			p.totals[i] += u.claims.score(slot)
		}
	}
	if !u.scores {
		return nil
	}
	err := u.addScores(ctx, p)
	if u.plan.opaque {
		u.failure = err
	}
	return err
}

func (u *uncached) addScores(ctx context.Context, p *pass) error {
	nodes := make([]fwk.NodeInfo, len(p.feasible)) // a new slice: plugins may keep it in the state
	for i, slot := range p.feasible {
		nodes[i] = u.snapshot.Info(slot)
	}
	if status := u.plan.uncached.RunPreScorePlugins(ctx, u.state, u.pod, nodes); !status.IsSuccess() {
		return statusError(status)
	}
	skippedFilters, skipped := u.state.GetSkipFilterPlugins(), u.state.GetSkipScorePlugins()
	for i := range u.plan.scorers {
		if s := &u.plan.scorers[i]; !s.mayScore(skippedFilters) {
			skipped.Insert(s.name)
		}
	}
	scores, status := u.plan.uncached.RunScorePlugins(ctx, u.state, u.pod, nodes)
	if !status.IsSuccess() {
		return statusError(status)
	}
	for i := range scores {
		p.totals[i] += scores[i].TotalScore
	}
	u.scored = scores
	return nil
}
