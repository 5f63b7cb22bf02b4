// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package sidebyside

import fwk "k8s.io/kube-scheduler/framework"

// Decision is the outcome of one pod's scheduling cycle, up to the point where the pod would be
// assumed.
type Decision struct {
	// State is the state of the cycle. Later extension points and further calls of plugins need it.
	State fwk.CycleState
	// Host is the name of the chosen node, or "" if the pod fits nowhere.
	Host string
	// Evaluated is the number of filtered nodes, and Feasible the number of those that passed.
	Evaluated, Feasible int
	// Err is the algorithm's error, with the message that PostFilter has added to it.
	Err error
	// Status and Nominating are the arguments of the failure handler.
	Status     *fwk.Status
	Nominating *fwk.NominatingInfo
}
