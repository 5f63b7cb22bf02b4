// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Result is the outcome of a decision.
type Result uint8

const (
	// Binding means that the pod is assumed on the node and not bound yet.
	Binding Result = iota + 1
	// Bound means that the pod was bound to the node.
	Bound
	// BindFailed means that the pod was not bound to the node: a plugin refused it on Reserve or
	// Permit, or the binding cycle failed.
	BindFailed
	// Unschedulable means that the pod fits no node.
	Unschedulable
	// Failed means that the decision failed: a plugin or an extender returned an error.
	Failed
)

var results = [...]string{Binding: "Binding", Bound: "Bound", BindFailed: "BindFailed", Unschedulable: "Unschedulable",
	Failed: "Failed"}

// String returns the name of the constant.
func (r Result) String() string {
	if int(r) < len(results) && results[r] != "" {
		return results[r]
	}
	return "unknown"
}

// ResultOf returns the result with a name.
func ResultOf(name string) (Result, bool) {
	for r := Binding; r <= Failed; r++ {
		if results[r] == name {
			return r, true
		}
	}
	return 0, false
}

// Decision is one attempt to schedule a pod, or a group of pods none of which was tried by itself.
//
// The loop decides one pod after the other, in the order of Number. To make a decision again,
// restore the nodes and pods as they were at Changes, and whatever else the plugins of the profile
// read (volumes, namespaces, nominated pods), and decide the pod by the profile at Revision. Then
// Feasible, Total and Tied are the same, and Node is one of the Tied nodes with that Total: which
// one is drawn is random, and not recorded. If the decision is Partial, Feasible and Tied depend on
// which nodes were evaluated; Total does only if the profile scores a sample.
type Decision struct {
	// Number is set by the Log.
	Number Number
	// Pod is the UID of the pod, and Namespace and Name name it. Of a group as a whole, Pod and
	// Name are "".
	Pod             types.UID
	Namespace, Name string
	// Group is the name of the pod's group in the same namespace, "" if it has none.
	Group string
	// Time is when the scheduling cycle began, and Attempt its number for the pod, from 1.
	Time    time.Time
	Attempt int
	// Profile is the name of the SchedulerProfile, and Revision the revision of the instance that
	// decided.
	Profile, Revision string
	// Changes counts the changes of nodes and pods that the loop had seen, since the process
	// started (cache.Snapshot.Changes). Between decisions with the same Changes, no node has
	// changed, nor a pod on a node, in a way that decisions depend on. That a pod is assumed or
	// forgotten is one change.
	Changes uint64
	// Placed is how many other pods of its group had a node in the same attempt, beside what
	// Changes counts. They are changes once they are assumed, and none if the attempt fails.
	Placed int
	// Nominated reports whether there were nominated pods, which decisions depend on, too.
	Nominated bool
	// Domain has the nodes that were allowed: one domain of the topology of the pod's group. nil:
	// all nodes.
	Domain podgroup.Domain
	// Class is the class of the pod on the fast path. 0: the scalar path decided.
	Class cache.ClassID
	// Nodes is the number of nodes in the snapshot, Evaluated of those that filters were run on,
	// and Feasible of those that the pod fits. Of a pod that fits no node, Evaluated is unset.
	Nodes, Evaluated, Feasible int
	// Partial means that the pod may fit nodes that were not evaluated: see algorithm.Result.
	Partial bool

	// Node is the chosen node, "" if there is none. Total is its score, the highest of all, and
	// Tied the number of nodes that share it. The only node that fits is not scored, and its Total
	// is 0.
	Node  string
	Total int64
	Tied  int

	Result Result
	// Message is the reason why the pod was not bound. Append does not read it: see Explain.
	Message string

	// Top are the nodes with the highest totals, with their weighted scores by plugin, Node first.
	// Append does not read it: see SetTop. nil: the decision was not sampled.
	Top []fwk.NodePluginScores
}

// entry is a Decision in the ring. It has no pointers, so that the garbage collector does not read
// the ring.
type entry struct {
	pod key
	// before is the decision before this one in the list that begins at the same head. It may have
	// been overwritten; then the list ends.
	before                  Number
	time, total             int64
	changes                 uint64
	class                   cache.ClassID
	namespace, group        handle
	node, profile, revision handle
	// message is a handle of Log.messages.
	message                          handle
	nodes, evaluated, feasible, tied int32
	attempt, placed                  int32
	// sample is 1 + the index in Log.samples, 0 if the decision was not sampled.
	sample             uint32
	result             Result
	nominated, partial bool
	// domain is Decision.Domain as text.
	domain handle
}

// key is a UID in 16 bytes. The zero key stands for a group as a whole.
type key [16]byte

// uidLength is the length of a UID with dashes.
const uidLength = 36

// keyOf returns the bytes of a UID, or a hash of it if it has not the form that the API server
// gives to UIDs.
func keyOf(uid types.UID) key {
	if uid == "" {
		return key{}
	}
	if text := string(uid); len(text) == uidLength && text == strings.ToLower(text) {
		if parsed, err := uuid.Parse(text); err == nil {
			return key(parsed)
		}
	}
	sum := sha256.Sum256([]byte(uid))
	return key(sum[:len(key{})])
}

// uid is the reverse of keyOf.
func (k key) uid() types.UID {
	if k == (key{}) {
		return ""
	}
	return types.UID(uuid.UUID(k).String())
}

// hash returns a number whose last bits differ between pods: UIDs are random.
func (k key) hash() uint64 { return binary.LittleEndian.Uint64(k[8:]) }
