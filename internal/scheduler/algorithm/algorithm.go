// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// ErrNoNodesAvailable is returned when the cluster has no nodes. The text is kube-scheduler's; it
// becomes the pod's condition.
var ErrNoNodesAvailable = errors.New("no nodes available to schedule pods")

// Config configures a Decider.
type Config struct {
	// Snapshot is the snapshot of the cluster that decisions use. The caller of Decide refreshes
	// it between the calls. Nodes are sampled in the order of NodeInfos().List().
	Snapshot fwk.SharedLister
	// IntN returns a random number from 0 to n-1, to draw nodes of equal score.
	// Default: rand.IntN.
	IntN func(n int) int
	// Engine decides on the fast path, on the same snapshot. nil: every decision takes the scalar
	// path.
	Engine *fastpath.Engine
	// Reproducible makes the scalar path find the same nodes in the same order each time, whichever
	// goroutine is faster: it filters all nodes, also if fewer are scored.
	Reproducible bool
	// DeferredResizes means that plugins treat pods whose resize is deferred in another way than
	// other pods. Such pods take the scalar path.
	DeferredResizes bool
	// Verify makes every decision of the fast path on the scalar path, too. The decision of the
	// scalar path is used.
	Verify bool
}

// Params holds what the instance of a pod's profile contributes to a decision.
type Params struct {
	Framework *framework.Framework
	// Extenders are called after the plugins, in order.
	Extenders []fwk.Extender
	// PercentageOfNodesToScore ends the search once that share of the nodes, and at least 100
	// nodes, are found to fit. 0 and 100: all nodes are scored. On the fast path it bounds only the
	// search of the plugins that must be run node by node.
	PercentageOfNodesToScore int32
	// EveryNode finds all nodes that the pod fits, even if PercentageOfNodesToScore is less, or if
	// no plugin scores. Of a pod that fits its nominated node, it finds only that.
	EveryNode bool
	// FastPath describes how the fast path treats the plugins. nil: the pod takes the scalar path.
	FastPath *fastpath.Plan
	// Unexplained leaves out why a pod fits no node if the fast path finds so: the scalar path,
	// which finds the reasons, takes long.
	Unexplained bool
}

// request is a pod to place, with what its profile contributes.
type request struct {
	Params
	state fwk.CycleState
	pod   *corev1.Pod
}

// Decider decides for one pod at a time. It belongs to the goroutine of the scheduling loop. It
// serves all profiles, so that they share one rotation of sampled nodes.
type Decider struct {
	cfg Config
	// next is the position in the list of nodes where the next sample starts.
	next int
	// drawLate is draw, made once because each method value is an allocation.
	drawLate fastpath.Draw
}

// New returns a Decider.
func New(cfg Config) *Decider {
	if cfg.IntN == nil {
		cfg.IntN = rand.IntN
	}
	d := &Decider{cfg: cfg}
	d.drawLate = d.draw
	return d
}

// Decide finds the best node for the pod. state must be new. A pod that is on a node, because its
// resize is deferred, is decided on that node only. Afterwards it holds what Reserve and
// the later extension points need.
//
// If the pod fits no node, the error is, or wraps, a *schedframework.FitError, which has the reason
// for each node. It is ErrNoNodesAvailable if there are no nodes. Any other error comes from a
// plugin or an extender, or is the cause of ctx.
func (d *Decider) Decide(ctx context.Context, p Params, state fwk.CycleState, pod *corev1.Pod) (Decision, error) {
	r := request{p, state, pod}
	if d.cfg.Engine == nil || p.FastPath == nil {
		return d.newScalar(r).decide(ctx)
	}
	if reason := d.reasonForScalarPath(r); reason != fastpath.None {
		d.cfg.Engine.Count(metrics.PathScalar, reason)
		return d.newScalar(r).decide(ctx)
	}
	if d.cfg.Verify {
		return d.decideBoth(ctx, r)
	}
	return d.decideFast(ctx, r)
}

// draws is the number of nodes with the same total whose pods are counted. With one, pods would
// gather on nodes that already have some, because totals are whole numbers and do not distinguish a
// few small pods from none. With all, each decision would visit all equal nodes.
const draws = 32

// draw chooses among n nodes with the same total. It draws some of them, or takes all if they are
// few, and returns the one with the fewest pods.
func (d *Decider) draw(n int, pods func(i int) int) int {
	if n == 1 {
		return 0
	}
	first := d.cfg.IntN(n)
	chosen, fewest := first, pods(first)
	for k := 1; k < min(n, draws) && fewest > 0; k++ {
		i := (first + k) % n
		if n > draws {
			i = d.cfg.IntN(n)
		}
		if here := pods(i); here < fewest {
			chosen, fewest = i, here
		}
	}
	return chosen
}
