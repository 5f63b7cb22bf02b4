// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Messages of upstream's packages defaultpreemption and preemption (Kubernetes 1.37).
const (
	// evicting is about a preemptor whose victims are being evicted.
	evicting = "waiting for the preemption for this pod to be finished"
	// VictimsTerminating is about a preemptor whose victims have been evicted and are not gone.
	VictimsTerminating = "preemption: " + terminating
	terminating        = "not eligible due to a terminating pod on the nominated node."
	// policyNever is about a preemptor whose policy forbids preemption.
	policyNever = "not eligible due to preemptionPolicy=Never."
	// noVictimsFound is about a node without pods of a lower priority.
	noVictimsFound = "No preemption victims found for incoming pod"
	// notHelpful is about a node that no eviction makes fit.
	notHelpful = "Preemption is not helpful for scheduling"
)

// noCandidateMessage returns upstream's message about a pod without a candidate: it counts the
// results of the dry runs, and the other nodes.
func noCandidateMessage(pod *corev1.Pod, dryRuns map[string]*fwk.Status, nodes int) string {
	statuses := schedframework.NewNodeToStatus(dryRuns, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, notHelpful))
	fitError := schedframework.FitError{Pod: pod, NumAllNodes: nodes,
		Diagnosis: schedframework.Diagnosis{NodeToStatus: statuses}}
	return "preemption: " + fitError.Error()
}
