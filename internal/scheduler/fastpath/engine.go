// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"math"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
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
// their rows, the resources of the nodes, and memory that decisions reuse one after the other. The
// state of one decision is in its Attempt.
//
// An Engine belongs to the goroutine of the scheduling loop, as its snapshot does.
type Engine struct {
	snapshot *cache.Snapshot
	keys     keyWriter
	// mentions are the keys of the labels that distinguish classes. All profiles share them,
	// because the selectors of one profile's pods select the pods of others.
	mentions *topology.Mentions
	// allLabels is mentions.All() when the classes were last dropped for a change.
	allLabels bool
	nodes     *nodeTable
	classes   *classTable

	refresher refresher
	pass      pass
	search    uncachedSearch
	claims    claimCheck
	// decision is the latest decision, which is lent to its Attempt.
	decision decision
}

// New returns an Engine that decides on a snapshot and keeps classes in up to maxBytes bytes (0:
// DefaultMemoryLimit).
func New(snapshot *cache.Snapshot, maxBytes int) *Engine {
	return newEngine(snapshot, maxBytes, ofProcess())
}

// NewUnmeasured returns an Engine that does not appear in the metrics of the process.
func NewUnmeasured(snapshot *cache.Snapshot, maxBytes int) *Engine {
	return newEngine(snapshot, maxBytes, ofNobody())
}

func newEngine(snapshot *cache.Snapshot, maxBytes int, instruments *instruments) *Engine {
	if maxBytes == 0 {
		maxBytes = DefaultMemoryLimit()
	}
	instruments.memoryLimit.Set(float64(maxBytes))
	e := &Engine{snapshot: snapshot, mentions: topology.NewMentions(0), nodes: newNodeTable(), pass: pass{snapshot: snapshot}}
	e.classes = newClassTable(e.nodes, maxBytes, instruments)
	e.refresher = refresher{snapshot: snapshot, nodes: e.nodes, classes: e.classes}
	e.decision.engine = e
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
}

// Decide finds the best nodes for a pod among all nodes. The Attempt is valid until the next call,
// or until the snapshot changes.
func (e *Engine) Decide(ctx context.Context, r Request) Attempt {
	d := &e.decision
	d.reset(r)
	d.run(ctx)
	return Attempt{d, d.id}
}

// NumNodes returns the number of nodes in the snapshot.
func (e *Engine) NumNodes() int { return e.snapshot.NumNodes() }

// nodeName returns the name of the node in a slot.
func nodeName(snapshot *cache.Snapshot, slot cache.Slot) string {
	return snapshot.Info(slot).Node().Name
}
