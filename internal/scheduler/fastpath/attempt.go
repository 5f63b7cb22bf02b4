// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

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
func (a Attempt) State() fwk.CycleState { return a.lent().scalarState() }

// NominationsChanged reports whether the nominated pods that matter to the pod have changed since
// the decision.
func (a Attempt) NominationsChanged() bool { return a.lent().nominationsChanged() }

// Examined returns the number of nodes that the attempt has evaluated one by one so far, for
// themselves or for their group. It excludes the computation for a new class, and the nodes that
// plugins were run on (plugin_evaluation_total).
func (a Attempt) Examined() int { return a.lent().engine.refresher.examined }

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
		names = append(names, nodeName(d.engine.snapshot, slot))
	}
	return names
}

// Totals returns the totals of all nodes that fit, by name, or 0 if there is only one. It
// recomputes them in a pass over all nodes.
func (f Fit) Totals(ctx context.Context) (map[string]int64, error) { return f.of.lent().allTotals(ctx) }

// Total returns the total of the best nodes, or 0 if only one node fits.
func (f Fit) Total() int64 { return f.of.lent().highest }

// Top returns the weighted scores of the n nodes with the highest totals: the node that was taken,
// or else one of the best, and then the others. It computes them in a few passes over all nodes.
// The only node that fits has no scores.
func (f Fit) Top(ctx context.Context, n int) ([]fwk.NodePluginScores, error) {
	return f.of.lent().topNodes(ctx, n)
}

// Placement is the node that a pod is placed on.
type Placement struct {
	NodeName string
	// Feasible is the number of nodes that the pod fits, Evaluated the number of nodes that were
	// evaluated.
	Feasible, Evaluated int
	// Total is the highest total, and Tied the number of nodes that share it. A node that is the
	// only one has no total.
	Total int64
	Tied  int
	// Class is the class of the pod.
	Class cache.Class
	// Uncached is the reason why plugins were run on the remaining nodes: UnknownPlugin, Volumes or
	// Devices. It is None if they were not run.
	Uncached Reason
}

// Take places the pod on the i-th of the best nodes. It prepares the state of the pod for Reserve
// and the later extension points on that node. If it returns false, the pod takes the scalar path,
// for the Reason of the Attempt.
func (f Fit) Take(ctx context.Context, i int) (Placement, bool) {
	return f.of.lent().take(ctx, i)
}
