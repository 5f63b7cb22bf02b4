// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"math"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// minDefaultLimit is the lowest default limit of the memory of classes. It is enough for about a
// thousand classes in a cluster of 10,000 nodes.
const minDefaultLimit = 128 << 20

// DefaultMemoryLimit returns the default limit of the memory of classes, in bytes: an eighth of
// GOMEMLIMIT, because that grows with the cluster, as do classes.
func DefaultMemoryLimit() int {
	limit := debug.SetMemoryLimit(-1) // which only reads it
	if limit == math.MaxInt64 {
		return minDefaultLimit
	}
	return max(minDefaultLimit, int(limit/8))
}

// Engine decides on the fast path. It holds what outlives a decision: the classes of pods with
// their rows, the resources of the nodes, and memory that it lends to one decision after the other.
// Nothing else of a decision is here.
//
// An Engine belongs to the goroutine of the scheduling loop, as its snapshot does.
type Engine struct {
	snapshot *cache.Snapshot
	keys     keyWriter
	// mentions are the keys of the labels that distinguish classes. All profiles share them,
	// because the selectors of one profile's pods select the pods of others.
	mentions *topology.Mentions
	// allLabels are the namespaces in which all labels counted when classes were last dropped for a
	// change, "" for everywhere.
	allLabels sets.Set[string]
	nodes     *nodeTable
	// nominations are the nodes with nominated pods, for pods of each priority.
	nominations framework.Nominations
	// nominatedRead holds how far mentions has read the terms of nominated pods.
	nominatedRead map[*framework.NominatedNodes]uint64
	classes       *classTable
	devices       deviceTable
	search        uncachedSearch
	late          lateSearch
	early         earlyScores

	// lent is the memory of the latest decision.
	lent struct {
		decision decision
		pass     pass
		scratch  scratch
		claims   claimCheck
		devices  deviceCheck
	}
}

// New returns an Engine that decides on a snapshot and keeps classes in up to maxBytes bytes (0:
// DefaultMemoryLimit).
func New(snapshot *cache.Snapshot, maxBytes int) *Engine {
	return newEngine(snapshot, maxBytes, ofProcess())
}

// NewUnmeasured returns an Engine that does not appear in the metrics of the process.
func NewUnmeasured(snapshot *cache.Snapshot, maxBytes int) *Engine {
	return newEngine(snapshot, maxBytes, discarded())
}

// besideIDs is more than the number of any class of an Engine that New has made.
const besideIDs = 1 << 62

// NewBeside returns an Engine that decides beside the one of the scheduling loop, on its snapshot,
// and does not appear in the metrics of the process. The log of the snapshot names the classes of
// the loop's Engine. The classes of this one have other numbers, so that it takes none of them for
// its own.
func NewBeside(snapshot *cache.Snapshot, maxBytes int) *Engine {
	e := NewUnmeasured(snapshot, maxBytes)
	e.classes.lastID = besideIDs
	return e
}

func newEngine(snapshot *cache.Snapshot, maxBytes int, instruments *instruments) *Engine {
	if maxBytes == 0 {
		maxBytes = DefaultMemoryLimit()
	}
	instruments.memoryLimit.Set(float64(maxBytes))
	e := &Engine{snapshot: snapshot, mentions: topology.NewMentions(0), allLabels: sets.New[string](),
		nodes:         newNodeTable(),
		nominatedRead: map[*framework.NominatedNodes]uint64{}}
	e.classes = newClassTable(e.nodes, maxBytes, instruments)
	e.lent.pass.snapshot = snapshot
	return e
}

// Request is a pod for which a node is needed.
type Request struct {
	// Plan is the Plan of the instance of the pod's profile.
	Plan *Plan
	// State is the CycleState of the pod. It must be new.
	State fwk.CycleState
	Pod   *corev1.Pod
	// Enough ends the search of the uncached plugins once they accept this number of nodes. Rows
	// and trackers always cover all nodes. 0: the uncached plugins are run on all remaining nodes.
	Enough int
	// Draw draws among nodes with the same total. If it is set, the uncached plugins are run on the
	// nodes with the highest totals first, where possible, until they accept one: it is the same
	// node as among all of them. nil: they are run as Enough says.
	Draw Draw
}

// Draw returns one of the numbers from 0 to n-1, which stand for nodes. pods returns the number of
// pods on a node.
type Draw func(n int, pods func(i int) int) int

// Decide finds the best nodes for a pod among all nodes. The Attempt is valid until the next call,
// or until the snapshot changes.
func (e *Engine) Decide(ctx context.Context, r Request) Attempt {
	d, in := &e.lent.decision, e.classes.instanceOf(r.Plan)
	e.late.state = nil // it belongs to another pod
	*d = decision{
		engine: e, id: d.id + 1, pos: e.snapshot.Log().End(), Request: r, instance: in,
		refresher: refresher{
			plan: r.Plan, snapshot: e.snapshot, nodes: e.nodes, classes: e.classes, scratch: &e.lent.scratch,
			recordMetrics: r.State.ShouldRecordPluginMetrics(),
		},
		pass: &e.lent.pass, best: ties{parts: d.best.parts[:0]},
	}
	d.run(ctx)
	return Attempt{d, d.id}
}

// NumNodes returns the number of nodes in the snapshot.
func (e *Engine) NumNodes() int { return e.snapshot.NumNodes() }
