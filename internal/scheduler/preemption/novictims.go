// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// noVictims answers for a preemptor if no pod in the cluster has a lower priority. Upstream finds
// the same message by a dry run on a copy of every node.
type noVictims struct {
	// text is the last message about statuses that have a version; see framework.Refusals.
	text    string
	version uint64
}

// message returns upstream's message. ok is false if there may be victims, or upstream may answer
// something else.
func (n *noVictims) message(
	f *finder, version uint64, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (text string, ok bool) {
	if f.snapshot.NumNodes() == 0 || f.victims.mayHaveBelow(corev1helpers.PodPriority(pod)) ||
		f.preemptsNever(pod) || pod.Spec.SchedulingGroup != nil {
		return "", false
	}
	if n.version == version && version != 0 {
		return n.text, true
	}
	potential, err := statuses.NodesForStatusCode(f.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return "", false
	}
	none := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, noVictimsFound)
	dryRuns := make(map[string]*fwk.Status, len(potential))
	for _, node := range potential {
		dryRuns[node.Node().Name] = none
	}
	n.version, n.text = version, noCandidateMessage(pod, dryRuns, f.snapshot.NumNodes())
	return n.text, true
}
