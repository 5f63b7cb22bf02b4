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

// Tracker answers for one plugin whose result depends on more than a single node, for the pods of
// one class. It is kept up to date node by node. It belongs to the goroutine of the scheduling
// loop, as does the snapshot that it was made for: a method must not be called while another one
// runs, or while the snapshot is refreshed.
//
// A decision calls the methods in this order:
//
//	Stale                 after each refresh of the snapshot; a stale Tracker must be replaced
//	Update                once for each slot that has changed since the Tracker was made or updated
//	GroupsEpoch, Moved    if AppendGroup is called
//	Keep, KeepsBeside,    any number of times, until the next refresh
//	Score, AppendGroup
type Tracker interface {
	// Stale reports whether updating slot by slot is no longer enough, because namespaces or
	// services have changed or a topology has been renumbered. A stale Tracker stays stale.
	Stale() bool
	// Relevant reports whether placing a pod like this one on a node, or removing it, can change
	// anything for the class. If not, that change needs no Update. It returns true if in doubt. As
	// long as the Tracker lives, the result is the same for all pods with equal namespace, pod
	// (anti-)affinity and labels (except those that binding sets, see cache.SetByBinding). Two pods
	// whose labels differ for a class's selector are not alike, even if no selector read these
	// labels when the pods were placed.
	Relevant(pod *schedframework.PodInfo) bool
	// Update recomputes the contribution of the node in a slot, after the node was added or
	// changed, its pods changed, or the slot became free. Updating a slot that has not changed has
	// no effect.
	Update(slot cache.Slot)
	// Keep filters nodes: it moves the slots of the nodes that the class's pods fit to the front of
	// slots, in their order, and returns them.
	Keep(slots []cache.Slot) []cache.Slot
	// Refusal returns the status with which the plugin refuses the node in a slot, or nil if Keep
	// would keep it. There are few of them, so that they can be compared. They must not be
	// modified.
	Refusal(slot cache.Slot) *fwk.Status
	// Beside returns what pods that are nominated to a node mean to Keep for that node.
	Beside(pods []fwk.PodInfo) Beside
	// KeepsBeside reports whether Keep would keep the node in a slot, which it keeps now, if such
	// pods were on it.
	KeepsBeside(slot cache.Slot, b *Beside) bool
	// Score writes the scores of the feasible nodes, after normalization and before weights, in
	// their order; scores is as long as feasible. If ok is false, the plugin skips scoring or gives
	// all of them 0, and the content of scores is undefined.
	//
	// If sizes is not nil, each slot of feasible stands for the number of nodes of its group in
	// sizes, itself included, and all these nodes are feasible. If sizes is nil, each slot stands
	// for itself.
	Score(feasible []cache.Slot, sizes []int32, scores []int64) (ok bool)
	// AppendGroup appends to key everything by which Keep and Score distinguish the node in a
	// slot from others. Nodes with equal keys form one group: they get equal answers, now and after
	// any change to other nodes. The key of a slot changes only when the slot is updated, when
	// Moved returns it, or when GroupsEpoch grows. No key is a prefix of another.
	AppendGroup(key []byte, slot cache.Slot) []byte
	// GroupsEpoch returns a number that grows when the keys of any slots may have changed. Call it
	// after the updates that follow a refresh, and before AppendGroup.
	GroupsEpoch() uint64
	// Moved returns slots whose keys may have changed since a position that an earlier call has
	// returned, although they were not updated, and the position after them. If ok is false, it
	// does not know all of them. They are valid until the next update.
	Moved(pos uint64) (slots []cache.Slot, end uint64, ok bool)
	// LetsAll reports whether Keep would currently keep every node. It returns
	// false if in doubt.
	LetsAll() bool
	// Idle reports whether Keep would currently keep every node and Score would
	// return false for any feasible nodes. It returns false if in doubt.
	Idle() bool
	// Bytes estimates the memory that the Tracker holds.
	Bytes() int
}

// byBinding reports whether a selector reads labels that pods get only when they are bound. The
// class of a pod does not include these labels.
func byBinding(selector labels.Selector) bool {
	requirements, _ := selector.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return cache.SetByBinding(r.Key()) })
}
