// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// decision is one decision. The Engine lends its memory: see Attempt for how long.
type decision struct {
	engine *Engine
	// id is the number of the decision. Attempts with another number are out of date.
	id uint64
	// pos is the position in the log of the snapshot that the decision is about.
	pos uint64
	Request
	instance  *instance
	refresher refresher
	laps      laps

	// class is the class of the pod, once it is known. named is true if the pod names the nodes
	// that it may run on.
	class *class
	named bool
	// like is the pod, or the part of it that determines its class: the pod that the plugins are
	// run for whose answers are kept.
	like *corev1.Pod
	// delegated means that devices back resources that the pod requests. like has no such requests,
	// and NodeResourcesFit is run for the pod as an uncached plugin.
	delegated bool
	// nominated are the nodes with nominated pods for which the pod must leave room.
	nominated *framework.NominatedNodes
	// repelling are the nodes on which a tracker does not accept the pod beside nominated pods.
	repelling *exceptions
	uncached  uncached
	// classChanges is the number of changes of device classes when the decision began.
	classChanges uint64
	// claimChanges are the changes of claims by then.
	claimChanges claimChanges

	reason              Reason
	feasible, evaluated int
	// partial means that the pod may fit nodes that were not evaluated.
	partial bool
	// pass has the nodes that the pod fits. If flat is true, it has the totals of all of them. If
	// not, it has no totals for a plain class, and one total for each group for other classes.
	pass *pass
	flat bool
	// late is true if the uncached plugins have been run only on the nodes with the highest totals:
	// pass and best have those that they accept. lateSearch continues.
	late bool
	// best are the nodes with the highest total, taken is the number of the one that the pod was
	// placed on.
	best    ties
	taken   int
	highest int64
}

// run decides. If the reason is not None, the state is as good as new afterwards.
func (d *decision) run(ctx context.Context) {
	d.laps.began = time.Now()
	d.reason = d.decide(ctx)
	if d.reason != None {
		d.uncached.undo(ctx)
		return
	}
	d.instance.observe(d.laps, !d.named)
}

func (d *decision) decide(ctx context.Context) (reason Reason) {
	switch {
	case d.Plan.scalar:
		return UnknownPlugin
	case podfields.ReportsResources(d.Pod):
		return Devices
	case klog.FromContext(ctx).V(10).Enabled():
		return Verbose
	}
	d.classChanges = d.Plan.classChanges()
	d.claimChanges = d.Plan.claimChanges()
	d.nominated = d.engine.nominations.Read(d.Plan.framework.Nominator(), d.Pod)
	like := d.Pod
	if d.Plan.devicesBack(d.Pod) {
		if like = d.Plan.withoutBacked(d.Pod); like == nil {
			return Devices
		}
		d.delegated = true
	}
	if d.Plan.namesNodes && namesNodes(d.Pod) {
		return d.decideNamed(ctx, like)
	}
	if reason = d.ready(ctx, like); reason != None {
		return reason
	}
	fit, err := d.decideNominated(ctx)
	switch {
	case err != nil || fit:
		return d.afterNominated(ctx, err)
	case !d.uncached.active() && d.class.plain() && d.repelling.empty():
		reason = d.decidePlain()
	case d.mayBeLate():
		reason = d.decideLate(ctx)
	default:
		reason = d.decideGeneral(ctx)
	}
	if reason != None {
		return reason
	}
	return d.checkDevices(ctx)
}

// decidePlain decides about a pod of a plain class: the best nodes are those with the highest sum,
// apart from the score of their images.
func (d *decision) decidePlain() Reason {
	rows := d.class.local
	d.feasible, d.evaluated = rows.feasible, d.engine.NumNodes()
	d.endFilter()
	if d.feasible == 0 {
		return NoFit
	}
	if highest := rows.addBest(&d.best); d.feasible > 1 {
		d.highest = highest
	}
	return None
}

// decideGeneral decides about a pod whose nodes differ in more than the sum of their scores.
func (d *decision) decideGeneral(ctx context.Context) Reason {
	sorted, err := d.filter(ctx)
	if err != nil {
		return Failed
	}
	d.endFilter()
	if d.feasible == 0 {
		return NoFit
	}
	best, err := d.score(ctx)
	if err != nil {
		return Failed
	}
	d.flat = sorted == nil
	if d.flat {
		d.best.add(best)
		return None
	}
	for _, slot := range best {
		d.best.add(sorted.best(sorted.of(slot)))
	}
	return None
}

// endFilter follows when it is known which nodes the pod fits.
func (d *decision) endFilter() {
	d.engine.classes.account(d.class)
	d.laps.filtered = time.Now()
}

// checkDevices returns Devices if devices may have backed a resource that the pod requests while
// the filters were run: the answers of NodeResourcesFit then depend on more than the node. What was
// computed for the class is dropped.
func (d *decision) checkDevices(ctx context.Context) Reason {
	if d.delegated {
		if d.Plan.classChanges() != d.classChanges {
			return Devices
		}
		return None
	}
	if !d.class.local.extended || !d.devicesChanged(ctx) {
		return None
	}
	d.engine.classes.dropRows(d.class.local)
	return Devices
}

// devicesChanged reports whether devices back a resource that the pod requests, or may have done so
// since prepareUncached found that none does.
func (d *decision) devicesChanged(ctx context.Context) bool {
	// In this order: a change that AllSkip does not see any more has been counted.
	return !d.Plan.dynamic.AllSkip(ctx, schedframework.NewCycleState(), d.Pod, nil) ||
		d.Plan.classChanges() != d.classChanges
}

// ready finds the class of the pod and brings its rows and trackers up to date with the snapshot.
// like is the pod, or the part of it that determines its class.
func (d *decision) ready(ctx context.Context, like *corev1.Pod) Reason {
	d.like = like
	classes := d.engine.classes
	c, reason := d.engine.classify(ctx, d.instance, like, &d.refresher, d.nominated)
	if reason == None {
		reason = d.prepareUncached(ctx, c)
	}
	if reason != None {
		if c != nil && classes.byID[c.id] == c {
			classes.account(c) // it stays, although the scalar path decides
		}
		return reason
	}
	d.laps.prepared = time.Now()
	if err := c.local.sync(ctx, &d.refresher, like); err != nil {
		klog.FromContext(ctx).V(5).Info("The rows of a class are dropped", "pod", klog.KObj(d.Pod), "err", err)
		classes.dropRows(c.local)
		return Failed
	}
	d.class = c
	if d.leaveRoom(ctx) != nil {
		return Failed
	}
	d.leaveOutClaims()
	return None
}

// filter collects the nodes that the pod fits, using groups if possible.
func (d *decision) filter(ctx context.Context) (sorted *groups, err error) {
	d.evaluated = d.engine.NumNodes()
	if d.uncached.active() {
		return nil, d.filterUncached(ctx)
	}
	if sorted = d.class.groupsOf(&d.refresher); sorted != nil && !sorted.sync(&d.refresher, d.repelling) {
		sorted = nil
	}
	d.filterCached(sorted)
	d.feasible = d.pass.count(sorted)
	return sorted, nil
}

// filterCached makes the pass collect the nodes that rows and trackers accept.
func (d *decision) filterCached(sorted *groups) {
	d.pass.collect(d.class.local, sorted)
	d.refresher.examined += len(d.pass.feasible)
	d.keep()
}

// keep removes the nodes of the pass on which the trackers do not accept the pod, alone or beside
// nominated pods.
func (d *decision) keep() {
	d.pass.keep(d.class)
	d.pass.feasible = d.repelling.without(d.pass.feasible)
}

// score computes the totals of the pass's nodes and returns the best ones. A single node needs no
// score.
func (d *decision) score(ctx context.Context) (best []cache.Slot, err error) {
	p := d.pass
	if d.feasible == 1 {
		return p.feasible, nil
	}
	if err := p.total(ctx, d.class, &d.Request); err != nil {
		return nil, err
	}
	if err := d.uncached.score(ctx, p); err != nil {
		return nil, err
	}
	if d.uncached.early {
		if err := d.engine.early.run(ctx, d, p.feasible); err != nil {
			return nil, err
		}
		d.engine.early.addTo(p)
	}
	best, d.highest = p.selectBest()
	return best, nil
}

// totalAll makes the pass compute the totals of all nodes that fit, one by one, if the decision has
// not done so.
func (d *decision) totalAll(ctx context.Context) error {
	if d.flat {
		return nil
	}
	if !d.late {
		d.filterCached(nil)
	}
	if err := d.pass.total(ctx, d.class, &d.Request); err != nil {
		return err
	}
	if d.uncached.early { // which is late: other decisions with early scores have all totals
		d.engine.early.addTo(d.pass)
	}
	d.flat = true
	return nil
}

// unscored reports whether the node that was found has no total, because it is the only one that
// the pod fits.
func (d *decision) unscored() bool { return d.feasible == 1 && (!d.late || !d.partial) }

// exists reports whether there is a node of this name.
func (d *decision) exists(node string) bool {
	_, ok := d.engine.snapshot.SlotOf(node)
	return ok
}

// nodeName returns the name of the node in a slot.
func (d *decision) nodeName(slot cache.Slot) string { return d.engine.snapshot.Info(slot).Node().Name }
