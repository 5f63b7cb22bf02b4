// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// maxOwnMentions bounds the labels that count only because a pending pod's own selectors read them:
// a single odd pod must not make the classes of all others depend on its labels.
const maxOwnMentions = topology.DefaultMaxMentions / 4

// maxOwnTopologies bounds the topology keys of a pod: the snapshot maintains a limited number.
const maxOwnTopologies = 16

// decision is the state of one decision. See Attempt for how long it is lent.
type decision struct {
	engine *Engine
	// id is the number of the decision. Attempts with another number are out of date.
	id uint64
	Request
	// member is the instance of the pod's profile. setup holds what is kept for its plugins.
	member *member
	setup  *setup

	// class is the class of the pod, once it is known. named is true if the pod names the nodes
	// that it may run on.
	class *class
	named bool
	// nominated holds, by name, the nodes with nominated pods for which the pod must leave room,
	// each with a number that identifies these pods.
	nominated map[string]uint64
	uncached  uncached

	reason              Reason
	feasible, evaluated int
	// best are the nodes with the highest total, taken is the number of the one that the pod was
	// placed on.
	best    ties
	taken   int
	highest int64
}

// reset starts the decision about another pod.
func (d *decision) reset(r Request) {
	*d = decision{engine: d.engine, id: d.id + 1, Request: r, best: ties{parts: d.best.parts[:0]}}
}

// run decides. If the reason is not None, the state is as good as new afterwards.
func (d *decision) run(ctx context.Context) {
	d.reason = d.decide(ctx)
	if d.reason != None {
		d.uncached.undo()
	}
}

func (d *decision) decide(ctx context.Context) Reason {
	start, e := time.Now(), d.engine
	d.member = e.classes.memberOf(d.Plan)
	d.setup = d.member.setup
	switch {
	case d.Plan.scalar:
		return UnknownPlugin
	case podfields.ReportsResources(d.Pod):
		return Devices
	case d.Pod.Status.NominatedNodeName != "" || !d.readNominations():
		return Nominated
	case klog.FromContext(ctx).V(10).Enabled():
		return Verbose
	}
	e.refresher.begin(d.State.ShouldRecordPluginMetrics())
	if d.Plan.namesNodes && namesNodes(d.Pod) {
		return d.decideNamed(ctx)
	}
	prepared, reason := d.ready(ctx, d.Pod)
	if reason != None {
		return reason
	}
	// The best nodes of a plain class are those with the highest sum.
	rows := d.class.local
	plain, sorted, err := !d.uncached.active() && len(d.nominated) == 0 && d.class.plain(), (*groups)(nil), error(nil)
	if plain {
		d.feasible, d.evaluated = rows.feasible, e.NumNodes()
	} else if sorted, err = d.filter(ctx); err != nil {
		return Failed
	}
	e.classes.account(d.class)
	filtered := time.Now()
	if d.feasible == 0 {
		return NoFit
	}
	if plain {
		d.best.reset(rows.byFixed.best())
		if d.feasible > 1 {
			d.highest = rows.byFixed.top + rows.common()
		}
	} else if err := d.score(ctx); err != nil {
		return Failed
	} else {
		d.keepBest(sorted)
	}
	if reason := d.checkDevices(ctx); reason != None {
		return reason
	}
	d.member.preFilterDuration.Observe(prepared.Sub(start).Seconds())
	d.member.filterDuration.Observe(filtered.Sub(prepared).Seconds())
	d.member.scoreDuration.Observe(time.Since(filtered).Seconds())
	return None
}

// checkDevices returns Devices if devices now back a resource that the pod requests. The device
// classes, and with them the answers of NodeResourcesFit, may have changed since the class was
// made.
func (d *decision) checkDevices(ctx context.Context) Reason {
	if d.class.local.extended && !d.Plan.devicesSkip(ctx, d.Pod) {
		d.engine.classes.dropRows(d.class.local)
		return Devices
	}
	return None
}

// ready finds the class of the pod and brings its rows and trackers up to date with the snapshot.
// like is the pod, or the part of it that determines its class. prepared is the time at which the
// class and the trackers were ready, before the rows were updated.
func (d *decision) ready(ctx context.Context, like *corev1.Pod) (prepared time.Time, reason Reason) {
	e := d.engine
	d.readMentions(ctx, like)
	var c *class
	// Repeat if a selector that was just found reads more labels.
	for again := true; again; again = d.forgetIfMentionsChanged(ctx) {
		if c, reason = d.findClass(ctx, like); reason == None {
			reason = d.prepareTrackers(ctx, c)
		}
	}
	if reason == None {
		reason = d.prepareUncached(ctx, c)
	}
	if reason == None && len(d.nominated) > 0 && c.mindsPods() {
		reason = Nominated
	}
	if reason != None {
		if c != nil && e.classes.byID[c.id] == c {
			e.classes.account(c) // it stays, although the scalar path decides
		}
		return prepared, reason
	}
	prepared = time.Now()
	if err := c.local.sync(ctx, &e.refresher, like); err != nil {
		klog.FromContext(ctx).V(5).Info("The rows of a class are dropped", "pod", klog.KObj(d.Pod), "err", err)
		e.classes.dropRows(c.local)
		return prepared, Failed
	}
	d.class = c
	return prepared, None
}

// readMentions updates the labels that count by the selectors of pods on nodes and of services. The
// labels that the pod's own selectors read are known once it has a class.
func (d *decision) readMentions(ctx context.Context, pod *corev1.Pod) {
	e := d.engine
	e.mentions.ReadSnapshot(e.snapshot)
	if d.Plan.topology != nil {
		d.Plan.topology.ReadServices(e.mentions, pod)
	}
	d.forgetIfMentionsChanged(ctx)
}

// forgetIfMentionsChanged drops all classes if other labels count now than when the classes were
// made: the pods of one class may differ in labels that count now, and selectors of classes must be
// read again if Mentions has forgotten some. It reports whether it did. The classes in older
// entries of the change log then have no meaning any more.
func (d *decision) forgetIfMentionsChanged(ctx context.Context) bool {
	e := d.engine
	changed := e.mentions.Changed()
	if !changed {
		return false
	}
	if all := e.mentions.All(); all != e.allLabels {
		e.allLabels = all
		message := "Only labels that selectors read distinguish classes of pods again"
		if all {
			message = "All labels distinguish classes of pods now, because selectors read too many"
		}
		klog.FromContext(ctx).Info(message, "limit", topology.DefaultMaxMentions)
	}
	e.classes.instruments.labelKeys.Set(float64(e.mentions.Len()))
	e.classes.dropAll()
	return true
}

// findClass returns the class of a pod. If the class is new, its rows may be new, too.
func (d *decision) findClass(ctx context.Context, pod *corev1.Pod) (*class, Reason) {
	e := d.engine
	if !e.keys.write(d.Plan, pod, e.mentions) {
		return nil, UnknownPlugin
	}
	if c := e.classes.find(d.setup, e.keys.class()); c != nil {
		return c, None
	}
	like, err := copyOf(pod)
	if err != nil {
		return nil, Failed
	}
	if topology.CountKeys(like) > maxOwnTopologies {
		return nil, Topology
	}
	if e.mentions.CountNew(like) > maxOwnMentions {
		return nil, Selectors
	}
	e.mentions.ReadTerms(like)
	rows, ok := d.setup.locals[string(e.keys.localPart())]
	if !ok {
		if rows, err = newLocalRows(ctx, d.setup, &e.keys, pod, &e.refresher); err != nil {
			klog.FromContext(ctx).V(5).Info("No class is made for the pod", "pod", klog.KObj(pod), "err", err)
			return nil, Failed
		}
	}
	c := e.classes.add(string(e.keys.class()), like, rows)
	if e.classes.lookups.thrashing(time.Now()) {
		klog.FromContext(ctx).Info("Decisions are slow because the fast path evicts classes of pods that are needed again soon. Raise --fast-path-memory-limit",
			"limit", resource.NewQuantity(int64(e.classes.max), resource.BinarySI), "classes", e.classes.residents.len())
	}
	return c, None
}

// prepareTrackers brings the trackers of the pod's class up to date with the snapshot.
func (d *decision) prepareTrackers(ctx context.Context, c *class) Reason {
	e, factory := d.engine, d.Plan.topology
	switch {
	case c.local.named:
		return NodeNames
	case c.local.extended && d.Plan.devices == "":
		return Devices
	case factory == nil && !c.standsAlone(ctx, e.snapshot, d.Pod):
		return Topology
	case factory != nil && c.syncTrackers(&e.refresher, factory, e.mentions) != nil:
		e.classes.drop(c)
		return Failed
	}
	return None
}

// filter collects the nodes that the pod fits, using groups if possible.
func (d *decision) filter(ctx context.Context) (sorted *groups, err error) {
	e, c := d.engine, d.class
	d.evaluated = e.NumNodes()
	switch {
	case d.uncached.active():
		return nil, d.filterUncached(ctx)
	case len(d.nominated) > 0:
		// The nodes of a group may differ in their nominated pods.
		d.filterCached(nil)
		err = d.leaveOutNominated(ctx)
		d.feasible = len(e.pass.feasible)
		return nil, err
	}
	if sorted = c.groupsOf(&e.refresher); sorted != nil && !sorted.sync(&e.refresher) {
		sorted = nil
	}
	d.feasible = d.filterCached(sorted)
	return sorted, nil
}

// filterCached makes the pass collect the nodes that rows and trackers accept, and returns their
// number.
func (d *decision) filterCached(sorted *groups) int {
	e := d.engine
	e.pass.collect(d.class.local, sorted)
	e.refresher.examined += len(e.pass.feasible)
	e.pass.keep(d.class)
	return e.pass.count(sorted)
}

// score computes the totals of the pass's nodes and selects the best ones. A single node needs no
// score.
func (d *decision) score(ctx context.Context) error {
	p := &d.engine.pass
	if d.feasible == 1 {
		p.best = append(p.best[:0], p.feasible[0])
		return nil
	}
	if err := p.total(ctx, d.class, d.Pod); err != nil {
		return err
	}
	if err := d.scoreUncached(ctx); err != nil {
		return err
	}
	d.highest = p.selectBest()
	return nil
}

// keepBest keeps the nodes that score selected, or the best nodes of the groups that they stand
// for.
func (d *decision) keepBest(sorted *groups) {
	best := d.engine.pass.best
	if sorted == nil {
		d.best.reset(best)
		return
	}
	d.best.reset(nil)
	for _, slot := range best {
		d.best.add(sorted.best(sorted.of(slot)))
	}
}

// take implements Fit.Take.
func (d *decision) take(ctx context.Context, i int) (Placement, bool) {
	d.taken = i
	slot := d.best.at(i)
	if !d.settle(ctx, slot) {
		d.reason = Failed
		return Placement{}, false
	}
	return Placement{
		NodeName: nodeName(d.engine.snapshot, slot), Feasible: d.feasible, Evaluated: d.evaluated,
		Total: d.highest, Tied: d.best.len(),
		Class: cache.Class{ID: d.class.id, Like: d.class.like}, Uncached: d.uncached.reason,
	}, true
}

// allTotals implements Fit.Totals.
func (d *decision) allTotals(ctx context.Context) (map[string]int64, error) {
	if d.named {
		return d.byName(nil), nil
	}
	if err := d.totalAll(ctx); err != nil {
		return nil, err
	}
	return d.byName(d.engine.pass.totals), nil
}

// totalAll computes the totals of all nodes that fit, one by one, if the decision has not done so.
func (d *decision) totalAll(ctx context.Context) error {
	if d.uncached.flat {
		return nil
	}
	d.best.own() // the pass may overwrite the memory that best refers to
	d.filterCached(nil)
	if err := d.leaveOutNominated(ctx); err != nil {
		return err
	}
	return d.score(ctx)
}

// byName returns the totals of the pass's nodes by name, or 0 if there is only one.
func (d *decision) byName(totals []int64) map[string]int64 {
	p := &d.engine.pass
	named := make(map[string]int64, len(p.feasible))
	for i, slot := range p.feasible {
		var total int64
		if len(p.feasible) > 1 {
			total = totals[i]
		}
		named[nodeName(d.engine.snapshot, slot)] = total
	}
	return named
}

// scalarState implements Attempt.State.
func (d *decision) scalarState() fwk.CycleState {
	if d.uncached.answers != nil {
		return d.uncached.answers
	}
	return d.State
}
