// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// Upstream's messages for nodes where preemption does not help, from its packages defaultpreemption
// and preemption.
const (
	noVictims  = "No preemption victims found for incoming pod"
	notHelpful = "Preemption is not helpful for scheduling"
)

// futility is what upstream's DefaultPreemption says of a pod that no running pod is less important
// than. It would come to that by copying every node. The scheduling loop's goroutine alone touches
// it.
type futility struct {
	// message is the last answer to statuses that had a version (framework.Refusals).
	message string
	version uint64
}

// ranked is a snapshot that knows the priorities of its pods.
type ranked interface {
	HasPodsBelow(priority int32) bool
}

// answer returns what upstream would answer, if the snapshot shows that there is nobody to preempt.
func (f *futility) answer(
	snapshot fwk.SharedLister, version uint64, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status, bool) {
	r, ok := snapshot.(ranked)
	if !ok || r.HasPodsBelow(corev1helpers.PodPriority(pod)) ||
		ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever || pod.Spec.SchedulingGroup != nil {
		return nil, nil, false
	}
	all, err := snapshot.NodeInfos().List()
	if err != nil || len(all) == 0 {
		return nil, nil, false
	}
	if f.version != version || version == 0 {
		within, err := statuses.NodesForStatusCode(snapshot.NodeInfos(), fwk.Unschedulable)
		if err != nil {
			return nil, nil, false
		}
		none, came := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, noVictims), make(map[string]*fwk.Status, len(within))
		for _, node := range within {
			came[node.Node().Name] = none
		}
		f.version, f.message = version, inVain(pod, came, len(all))
	}
	result, status := noNode(f.message)
	return result, status, true
}

// noNode is what PostFilter returns if no node is to be nominated.
func noNode(message string) (*fwk.PostFilterResult, *fwk.Status) {
	return schedframework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable, message)
}

// inVain counts what came of the nodes on which removing pods could have helped, and the others.
func inVain(pod *corev1.Pod, came map[string]*fwk.Status, nodes int) string {
	statuses := schedframework.NewNodeToStatus(came, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, notHelpful))
	fitError := schedframework.FitError{Pod: pod, NumAllNodes: nodes, Diagnosis: schedframework.Diagnosis{NodeToStatus: statuses}}
	return "preemption: " + fitError.Error()
}
