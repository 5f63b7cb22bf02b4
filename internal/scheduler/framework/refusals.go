// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import fwk "k8s.io/kube-scheduler/framework"

const refusalsKey fwk.StateKey = "livesched/Refusals"

// Refusals identifies the statuses of the nodes of a pod that fits nowhere. A PostFilter plugin may
// reuse its findings for one pod for other pods. The zero value allows no reuse.
type Refusals struct {
	// Class is the pod's class if the filters decide about each of its nodes by the NodeInfo alone,
	// even after pods are removed from it or added to it. The result is then the same for all pods
	// of the class. 0 means that other nodes matter, too, or that this is unknown.
	Class uint64
	// Version is the version of the statuses. With equal versions, the same nodes have statuses
	// with the same codes. 0 means that the statuses were computed for this pod alone.
	Version uint64
}

// Clone implements fwk.StateData.
func (r *Refusals) Clone() fwk.StateData { return r }

// WriteRefusals stores r in the state of a scheduling cycle. The caller must not change it
// afterwards.
func WriteRefusals(state fwk.CycleState, r *Refusals) { state.Write(refusalsKey, r) }

// ReadRefusals returns the value that WriteRefusals has stored, the zero value if there is none.
func ReadRefusals(state fwk.CycleState) Refusals {
	data, _ := state.Read(refusalsKey) // nil if it is not there
	if r, ok := data.(*Refusals); ok {
		return *r
	}
	return Refusals{}
}
