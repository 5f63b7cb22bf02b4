// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Attempt is one decision on the fast path with its state. It has one of four outcomes:
//
//	Fit      the pod fits; the caller takes one of the best nodes
//	Unfit    the pod fits no node
//	Err      a plugin has failed that must not be run again for this pod
//	Reason   none of these: the pod takes the scalar path, with State
//
// Its methods may be called in any order and any number of times. The Engine lends the memory
// behind an Attempt until the next decision, or until the snapshot changes; to use an Attempt after
// that is a bug, and panics.
type Attempt struct {
	d  *decision
	id uint64
}

// lent returns the decision.
func (a Attempt) lent() *decision {
	if a.d.id != a.id || a.d.pos != a.d.engine.snapshot.Log().End() {
		panic("fastpath: an attempt was used after the next decision began, or after the snapshot changed")
	}
	return a.d
}

// Reason returns why the pod takes the scalar path, or None if the pod fits.
func (a Attempt) Reason() Reason { return a.lent().reason }

// Fit returns the best nodes, or false if there are none.
func (a Attempt) Fit() (Fit, bool) { return Fit{a}, a.lent().reason == None }

// Unfit returns false unless the pod fits no node.
func (a Attempt) Unfit() (Unfit, bool) { return Unfit{a}, a.lent().reason == NoFit }

// Err returns the error of an opaque plugin that has failed to score the nodes that fit: it must
// not be run again. If Err returns nil, the pod takes the scalar path, which reports the failure.
func (a Attempt) Err() error { return a.lent().uncached.failure }

// State returns the state to pass to the scalar path. It is as good as new, but remembers the
// answers of plugins that must not be run twice for one pod.
func (a Attempt) State() fwk.CycleState {
	d := a.lent()
	if d.uncached.answers != nil {
		return d.uncached.answers
	}
	return d.Request.State
}

// NominationsChanged reports whether the nominated pods that matter to the pod have changed since
// the decision.
func (a Attempt) NominationsChanged() bool {
	d := a.lent()
	return d.nominated != nil && d.nominated.Changed(d.Pod)
}

// ClaimChanges are the changes of claims, by events, that a decision has seen.
type ClaimChanges struct{ claimChanges }

// ClaimChanges returns the changes of claims until the decision began.
func (a Attempt) ClaimChanges() ClaimChanges { return ClaimChanges{a.lent().claimChanges} }

// ClaimsChanged reports whether a change of a claim since may have changed which devices are
// allocated, and the answers of plugins with that.
func (a Attempt) ClaimsChanged(since ClaimChanges) bool {
	d := a.lent()
	return (d.uncached.state != nil || d.uncached.early) && d.Plan.claimChanges() != since.claimChanges
}

// Examined returns the number of nodes that the attempt has evaluated one by one so far, for
// themselves or for their group. It excludes the computation for a new class, and the nodes that
// plugins were run on (plugin_evaluation_total).
func (a Attempt) Examined() int { return a.lent().refresher.examined }

// Fit is the outcome that the pod fits. It holds the nodes with the highest total, at least one.
type Fit struct{ of Attempt }

// Len returns the number of best nodes.
func (f Fit) Len() int { return f.of.lent().best.len() }

// NumPods returns the number of pods on the i-th of the best nodes, including assumed pods.
func (f Fit) NumPods(i int) int {
	d := f.of.lent()
	return len(d.engine.snapshot.Info(d.best.at(i)).GetPods())
}

// Names returns the names of the best nodes.
func (f Fit) Names() []string {
	d := f.of.lent()
	names := make([]string, 0, d.best.len())
	for slot := range d.best.all() {
		names = append(names, d.nodeName(slot))
	}
	return names
}

// IsBest reports whether a node is one of the best.
func (f Fit) IsBest(node string) bool {
	d := f.of.lent()
	slot, ok := d.engine.snapshot.SlotOf(node)
	return ok && d.best.has(slot)
}

// Fits reports whether the pod fits a node. If plugins were run node by node until enough nodes
// were found, it does not on the others; after Top it may on more of them.
func (f Fit) Fits(node string) bool {
	d := f.of.lent()
	slot, ok := d.engine.snapshot.SlotOf(node)
	switch {
	case !ok:
		return false
	case d.flat || d.named || d.late:
		return slices.Contains(d.pass.feasible, slot)
	case d.class.local.verdict[slot] != fits || d.repelling != nil && d.repelling.has(slot):
		return false
	}
	kept := []cache.Slot{slot}
	for _, x := range d.class.trackers {
		if x.filters {
			kept = x.Keep(kept)
		}
	}
	return len(kept) > 0
}

// Total returns the total of the best nodes, or 0 if it is known that only one node fits.
func (f Fit) Total() int64 { return f.of.lent().highest }

// Totals returns the totals of all evaluated nodes that fit, by name, or 0 if there is only one. It
// may take a pass over all nodes.
func (f Fit) Totals(ctx context.Context) (map[string]int64, error) {
	d := f.of.lent()
	if d.unscored() {
		return map[string]int64{d.nodeName(d.best.at(0)): 0}, nil
	}
	if err := d.totalAll(ctx); err != nil {
		return nil, err
	}
	totals := make(map[string]int64, len(d.pass.feasible))
	for i, slot := range d.pass.feasible {
		totals[d.nodeName(slot)] = d.pass.totals[i]
	}
	return totals, nil
}

// Placement is the node that a pod is placed on.
type Placement struct {
	NodeName string
	// Feasible is the number of nodes that the pod fits, Evaluated the number of nodes that were
	// evaluated.
	Feasible, Evaluated int
	// Partial means that the pod may fit nodes that were not evaluated.
	Partial bool
	// Total is the highest total, and Tied the number of evaluated nodes that share it. A node that
	// is the only one has no total.
	Total int64
	Tied  int
	// Class is the class of the pod, the zero value if it requests more than the others of its
	// class.
	Class cache.Class
	// Uncached is the reason why plugins were run on the remaining nodes: UnknownPlugin, Volumes or
	// Devices. It is None if they were not run.
	Uncached Reason
}

// Take places the pod on the i-th of the best nodes. It prepares the state of the pod for Reserve
// and the later extension points on that node. If it returns false, the pod takes the scalar path,
// for the Reason of the Attempt.
func (f Fit) Take(ctx context.Context, i int) (Placement, bool) {
	d := f.of.lent()
	slot := d.best.at(i)
	d.taken = i
	if !d.uncached.settle(ctx, slot) {
		d.reason = Failed
		return Placement{}, false
	}
	class := cache.Class{ID: d.class.id, Like: d.class.like}
	if d.delegated {
		class = cache.Class{} // the pod requests more than the others of the class
	}
	return Placement{
		NodeName: d.nodeName(slot), Feasible: d.feasible, Evaluated: d.evaluated, Partial: d.partial,
		Total: d.highest, Tied: d.best.len(),
		Class: class, Uncached: d.uncached.reason,
	}, true
}
