// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Tracker is the answer of one plugin that looks beyond a node for the pods of one class, kept up
// to date node by node. It belongs to the goroutine of the scheduling loop, as the snapshot does
// that it was made for: no method may be called while another runs, or while the snapshot is
// refreshed.
//
// A decision calls the methods in this order:
//
//	Stale                 after each refresh of the snapshot; if so, the Tracker is made anew
//	Update                once for each slot that has changed since the Tracker was made or updated
//	GroupsEpoch           if AppendGroup is called
//	Filter, Keep, Score,  any number of times, until the next refresh
//	AppendGroup
type Tracker interface {
	// Stale reports whether Update, slot by slot, is not enough any more: namespaces or services
	// have changed, or topologies are numbered otherwise. A Tracker that is stale stays so.
	Stale() bool
	// Relevant reports whether a pod like this one, placed on a node or removed from it, changes
	// anything for the class. If not, that change needs no Update. It is true if in doubt, and the
	// same for all pods with equal namespace, labels (but for those that binding sets, see
	// cache.SetByBinding) and pod (anti-)affinity as long as the Tracker lives. Two pods of which a
	// class's selector sees different labels are not alike, even if no selector cared when they
	// were placed.
	Relevant(pod *schedframework.PodInfo) bool
	// Update recomputes what the node in a slot contributes: a node that came or changed, or whose
	// pods did, or none if the slot is free. Updating a slot to which nothing has happened changes
	// nothing.
	Update(slot cache.Slot)
	// Filter reports whether the class's pods fit the node in a slot: nil, or the status that the
	// plugin returns, of the same code, message and plugin. Statuses are shared and must not be
	// written to.
	Filter(slot cache.Slot) *fwk.Status
	// Keep is Filter for many nodes at once: it moves those that fit to the front of slots, in
	// their order, and returns them.
	Keep(slots []cache.Slot) []cache.Slot
	// Score writes the scores of the feasible nodes, after normalization and before weights, in
	// their order; scores is as long as feasible. With ok false the plugin skips scoring, or gives
	// 0 to all of them, and what is in scores means nothing.
	//
	// With sizes each of feasible stands for so many nodes of its group, itself included, and these
	// are the nodes that are feasible. nil: each stands for itself.
	Score(feasible []cache.Slot, sizes []int32, scores []int64) (ok bool)
	// AppendGroup appends to key all that Filter and Score tell the node in a slot from others by:
	// nodes of equal keys are of one group, that is, they are given equal answers now and after
	// whatever happens to other nodes. The key of a slot changes when the slot is updated, and with
	// GroupsEpoch. No key is the beginning of another.
	AppendGroup(key []byte, slot cache.Slot) []byte
	// GroupsEpoch is a number that grows when keys may have changed of slots that were not updated.
	// It has to be asked for after the updates that follow a refresh, and before AppendGroup.
	GroupsEpoch() uint64
	// LetsAll reports whether, as things are, Filter would let the class's pods on every node. It
	// is false if in doubt.
	LetsAll() bool
	// Idle reports whether, as things are, Filter would let the class's pods on every node and
	// Score would not be ok, whatever the feasible nodes. It is false if in doubt.
	Idle() bool
	// Bytes is about what it holds in memory.
	Bytes() int
}

// byBinding reports whether a selector goes by labels that pods only get when they are bound, of
// which their class says nothing.
func byBinding(selector labels.Selector) bool {
	requirements, _ := selector.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return cache.SetByBinding(r.Key()) })
}
