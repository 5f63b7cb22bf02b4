// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"slices"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// besides are the nodes with nominated pods, for the pods of a class that have one priority. As in
// kube-scheduler, the filters are run on such a node with these pods added. A nominated pod changes
// the answer for its own node and for no other, so all other nodes remain in rows and groups.
//
// The nodes are kept up to date by the changes of nominations and by the change log.
type besides struct {
	nominated *framework.NominatedNodes
	// read and pos are the positions in the changes of nominated and in the log. own is the node
	// that the latest pod itself is nominated to: its answer is for that pod only.
	read, pos uint64
	own       string

	nodes map[cache.Slot]*beside
	// following is the number of nodes whose answer depends on the pods of other nodes.
	following int
	// full are the nodes that rows accept, but that the local filters refuse beside the nominated
	// pods. repelling are those that a tracker refuses.
	full, repelling exceptions
}

// exceptions are slots that must not be used although rows and trackers accept them.
type exceptions struct {
	slots map[cache.Slot]struct{}
	// version identifies the slots: 0 if there are none.
	version uint64
	changed bool // since the version was set
}

func (e *exceptions) has(slot cache.Slot) bool {
	_, ok := e.slots[slot]
	return ok
}

// empty reports whether there are none. e may be nil.
func (e *exceptions) empty() bool { return e == nil || len(e.slots) == 0 }

// set adds or removes a slot.
func (e *exceptions) set(slot cache.Slot, in bool) {
	if e.has(slot) == in {
		return
	}
	e.changed = true
	if in {
		e.slots[slot] = struct{}{}
	} else {
		delete(e.slots, slot)
	}
}

// setVersion ends changes.
func (e *exceptions) setVersion(classes *classTable) {
	if !e.changed {
		return
	}
	e.version, e.changed = 0, false
	if len(e.slots) > 0 {
		e.version = classes.nextVersion()
	}
}

// without removes the exceptions from a list of slots.
func (e *exceptions) without(slots []cache.Slot) []cache.Slot {
	if e.empty() {
		return slots
	}
	return slices.DeleteFunc(slots, e.has)
}

// beside is a node with nominated pods.
type beside struct {
	// fits is the answer of the local filters. trackers are for those trackers of the class that
	// filter.
	fits     bool
	trackers []topology.Beside
	// follows is true if a tracker's answer depends on the pods of other nodes.
	follows bool
}

// besideBytes estimates the memory of a beside.
const besideBytes = 160

// maxBesides bounds the priorities for which a class keeps the nodes with nominated pods.
const maxBesides = 4

// leaveRoom makes the rows refuse the nodes on which the pod does not fit beside the pods that are
// nominated to them.
func (d *decision) leaveRoom(ctx context.Context) error {
	c, priority := d.class, corev1helpers.PodPriority(d.Pod)
	b := c.besides[priority]
	if b == nil && !d.nominated.Any() {
		c.local.occupy(&exceptions{})
		return nil
	}
	if b == nil || b.nominated != d.nominated {
		if c.besides == nil || len(c.besides) >= maxBesides {
			c.besides = map[int32]*besides{}
		}
		b = &besides{nominated: d.nominated, nodes: map[cache.Slot]*beside{}}
		b.full.slots, b.repelling.slots = map[cache.Slot]struct{}{}, map[cache.Slot]struct{}{}
		c.besides[priority] = b
	}
	u := besidesUpdate{besides: b, decision: d}
	if err := u.run(ctx); err != nil {
		delete(c.besides, priority)
		return err
	}
	c.local.occupy(&b.full)
	d.repelling = &b.repelling
	return nil
}

// besidesUpdate brings besides up to date in one decision.
type besidesUpdate struct {
	*besides
	*decision
	// state is the state that PreFilter leaves, nil until it is needed.
	state fwk.CycleState
}

func (u *besidesUpdate) run(ctx context.Context) error {
	snapshot, nominated := u.engine.snapshot, u.besides.nominated
	names, known := nominated.Since(u.read)
	changes, logged := snapshot.Log().Since(u.besides.pos)
	u.read, u.besides.pos = nominated.End(), snapshot.Log().End()
	if !known || !logged {
		if err := u.updateAll(ctx); err != nil {
			return err
		}
	} else {
		u.refresher.seen.reset(snapshot.Slots())
		for _, name := range names {
			if err := u.updateNamed(ctx, name); err != nil {
				return err
			}
		}
		if err := u.updateChanged(ctx, changes); err != nil {
			return err
		}
		for _, name := range [...]string{u.own, nominated.Own()} {
			if err := u.updateNamed(ctx, name); err != nil {
				return err
			}
		}
	}
	u.own = nominated.Own()
	u.follow()
	u.full.setVersion(u.engine.classes)
	u.besides.repelling.setVersion(u.engine.classes)
	return nil
}

// updateAll makes all nodes anew.
func (u *besidesUpdate) updateAll(ctx context.Context) error {
	clear(u.nodes)
	clear(u.full.slots)
	clear(u.besides.repelling.slots)
	u.following, u.full.changed, u.besides.repelling.changed = 0, true, true
	u.refresher.seen.reset(u.engine.snapshot.Slots())
	for name := range u.besides.nominated.All {
		if err := u.updateNamed(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// updateChanged updates the nodes among the changes of the log.
func (u *besidesUpdate) updateChanged(ctx context.Context, changes []cache.Change) error {
	for _, change := range changes {
		if u.nodes[change.Slot] == nil && change.Kind != cache.NodeAdded {
			continue
		}
		if err := u.update(ctx, change.Slot); err != nil {
			return err
		}
	}
	return nil
}

func (u *besidesUpdate) updateNamed(ctx context.Context, name string) error {
	if slot, ok := u.engine.snapshot.SlotOf(name); ok {
		return u.update(ctx, slot)
	}
	return nil // if it was removed, the log has its slot
}

// update determines the answer for the node in a slot, unless it has been done in this decision.
func (u *besidesUpdate) update(ctx context.Context, slot cache.Slot) error {
	if !u.refresher.seen.add(slot) {
		return nil
	}
	if node := u.nodes[slot]; node != nil {
		if node.follows {
			u.following--
		}
		delete(u.nodes, slot)
	}
	info := u.engine.snapshot.Info(slot)
	if info == nil || u.besides.nominated.Number(info.Node().Name) == 0 {
		u.full.set(slot, false)
		u.besides.repelling.set(slot, false)
		return nil
	}
	node := &beside{fits: true}
	u.nodes[slot] = node
	if !u.class.local.accepts(slot) {
		u.full.set(slot, false)
		u.besides.repelling.set(slot, false)
		return nil // until the log has a change of the node
	}
	if err := u.filter(ctx, node, info); err != nil {
		return err
	}
	if node.follows {
		u.following++
	}
	u.full.set(slot, !node.fits)
	u.besides.repelling.set(slot, !u.keeps(slot, node))
	return nil
}

// filter runs the local filters on a node with its nominated pods, and determines what these mean
// to the trackers.
func (u *besidesUpdate) filter(ctx context.Context, node *beside, info *schedframework.NodeInfo) error {
	u.refresher.examined++
	plugins := u.Plan.nodeWise
	if u.state == nil {
		state := schedframework.NewCycleState()
		if _, status, _ := plugins.RunPreFilterPlugins(ctx, state, u.like); !status.IsSuccess() {
			return statusError(status)
		}
		u.state = state
	}
	status := plugins.RunFilterPluginsWithNominatedPods(ctx, u.state, u.like, info)
	if !status.IsSuccess() && !status.IsRejected() {
		return statusError(status)
	}
	if node.fits = status.IsSuccess(); !node.fits {
		return nil
	}
	pods := u.Plan.framework.NominatedPods(u.Pod, info.Node().Name)
	for _, x := range u.class.trackers {
		if x.filters {
			of := x.Beside(pods)
			node.trackers = append(node.trackers, of)
			node.follows = node.follows || of.FollowsOthers()
		}
	}
	return nil
}

// keeps reports whether the trackers accept a node with its nominated pods. For a node that is full
// it does not matter.
func (u *besidesUpdate) keeps(slot cache.Slot, node *beside) bool {
	of := node.trackers
	for _, x := range u.class.trackers {
		if len(of) > 0 && x.filters {
			if !x.KeepsBeside(slot, &of[0]) {
				return false
			}
			of = of[1:]
		}
	}
	return true
}

// follow updates the nodes whose answer depends on the pods of other nodes.
func (u *besidesUpdate) follow() {
	if u.following == 0 {
		return
	}
	for slot, node := range u.nodes {
		if node.follows {
			u.besides.repelling.set(slot, !u.keeps(slot, node))
			u.refresher.examined++
		}
	}
}

// decideNominated places the pod on the node that it is nominated to, if it fits, as kube-scheduler
// does: without scores. It reports whether it fits.
func (d *decision) decideNominated(ctx context.Context) (bool, error) {
	name := d.Pod.Status.NominatedNodeName
	if name == "" {
		return false, nil
	}
	slot, ok := d.engine.snapshot.SlotOf(name)
	if !ok || d.class.local.verdict[slot] != fits {
		return false, nil
	}
	p := d.pass
	p.feasible, p.sizes = append(p.feasible[:0], slot), nil
	d.keep()
	if len(p.feasible) == 1 && d.uncached.active() {
		if _, err := d.keepUncached(ctx, 0); err != nil {
			return false, err
		}
	}
	if len(p.feasible) == 0 {
		return false, nil
	}
	d.feasible, d.evaluated, d.flat = 1, 1, true
	d.partial = d.engine.NumNodes() > 1
	d.endFilter()
	d.best.add(p.feasible)
	return true, nil
}
