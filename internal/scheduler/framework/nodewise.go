// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import fwk "k8s.io/kube-scheduler/framework"

const nodeWiseKey fwk.StateKey = "livesched/NodeWise"

// nodeWise is the class of a pod. Immutable.
type nodeWise struct{ class uint64 }

// Clone implements fwk.StateData.
func (n nodeWise) Clone() fwk.StateData { return n }

// WriteNodeWise notes in the state of a cycle that what the filters say of its pod and a node has
// nothing to do with other nodes: it follows from the NodeInfo, whatever pods are taken from it or
// added to it, and for pods of one class it is the same.
func WriteNodeWise(state fwk.CycleState, class uint64) { state.Write(nodeWiseKey, nodeWise{class}) }

// ReadNodeWise returns what WriteNodeWise has noted. ok says whether it has.
func ReadNodeWise(state fwk.CycleState) (class uint64, ok bool) {
	data, err := state.Read(nodeWiseKey)
	if err != nil {
		return 0, false
	}
	n, ok := data.(nodeWise)
	return n.class, ok
}
