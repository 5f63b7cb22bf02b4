// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/canary"
)

// noteCanary notes the outcome of an attempt at a pod, if a revision of its profile is rolled out.
// An attempt that ended with an error shows nothing about the revision.
func (c *cycle) noteCanary(nominating *fwk.NominatingInfo, status *fwk.Status) {
	if c.loop.Canaries == nil || c.resizes() || !status.IsSuccess() && !status.IsRejected() {
		return
	}
	var failed []rollout.Metric
	if status.IsRejected() {
		failed = append(failed, rollout.Unschedulable)
	}
	if preempts(nominating) {
		failed = append(failed, rollout.Preempting)
	}
	c.loop.Canaries.Note(canary.Decided{Profile: c.profile, Pod: c.pod.Pod, Took: c.took, Failed: failed})
}

// noteCanary notes the outcome of an attempt at a group, which is one owner.
func (g *groupCycle) noteCanary(fits bool) {
	if g.loop.Canaries == nil || len(g.members) == 0 || g.Why != nil && g.Why.Err != nil {
		return
	}
	var failed []rollout.Metric
	if !fits {
		failed = append(failed, rollout.Unschedulable)
	}
	for _, m := range g.members {
		if preempts(m.nominating) {
			failed = append(failed, rollout.Preempting)
			break
		}
	}
	g.loop.Canaries.Note(canary.Decided{Profile: g.Profile, Pod: g.members[0].pod.Pod, Failed: failed})
}

// preempts reports whether PostFilter has nominated a pod for a node, where it makes room.
func preempts(nominating *fwk.NominatingInfo) bool {
	return nominating != nil && nominating.NominatedNodeName != ""
}
