// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// DefaultMaxBytes bounds the memory that classes take: that of a thousand classes in a cluster of
// 10,000 nodes, about.
const DefaultMaxBytes = 128 << 20

// Engine decides on the fast path. It holds what outlives a decision: the classes of pods with
// their rows, the numbers of the nodes, and memory that decisions use one after the other. What
// belongs to one decision is in its Attempt.
//
// An Engine belongs to the goroutine of the scheduling loop, as its snapshot does.
type Engine struct {
	snapshot *cache.Snapshot
	keys     keyWriter
	// mentions are the keys of the labels that distinguish classes. All profiles share them, as
	// the selectors of one profile's pods ask about the pods of others.
	mentions *topology.Mentions
	nodes    *nodeTable
	classes  *classTable

	refresher refresher
	pass      pass
	search    uncachedSearch
	claims    claimCheck
	// decision is the latest one. It is lent to its Attempt.
	decision decision
}

// New returns an Engine that decides on a snapshot and keeps classes in up to so many bytes (0:
// DefaultMaxBytes).
func New(snapshot *cache.Snapshot, maxBytes int) *Engine {
	if maxBytes == 0 {
		maxBytes = DefaultMaxBytes
	}
	e := &Engine{snapshot: snapshot, mentions: topology.NewMentions(0), nodes: newNodeTable(), pass: pass{snapshot: snapshot}}
	e.classes = newClassTable(e.nodes, maxBytes)
	e.refresher = refresher{snapshot: snapshot, nodes: e.nodes, classes: e.classes}
	e.decision.engine = e
	return e
}

// Request is one pod to decide about.
type Request struct {
	// Plan is that of the instance of the pod's profile.
	Plan *Plan
	// State is the pod's, and new.
	State fwk.CycleState
	Pod   *corev1.Pod
	// Enough ends the search of the uncached plugins, once they accept so many nodes. All nodes are
	// looked up in rows and trackers in any case. 0: the uncached plugins are run on all nodes that
	// are left.
	Enough int
}

// Decide finds the best nodes for a pod among all nodes. The Attempt is valid until the next call.
func (e *Engine) Decide(ctx context.Context, r Request) Attempt {
	d := &e.decision
	d.reset(r)
	d.run(ctx)
	return Attempt{d, d.id}
}

// NumNodes returns the number of nodes that decisions are made among.
func (e *Engine) NumNodes() int { return e.snapshot.NumNodes() }

// nodeName returns the name of the node in a slot.
func nodeName(snapshot *cache.Snapshot, slot cache.Slot) string {
	return snapshot.Info(slot).Node().Name
}
