// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/canary"
)

// noteCanary notes the outcome of the first attempt at a pod, if a revision of its profile is
// rolled out. Further attempts would compare unequal things: pods that wait when they get the
// other revision are retried at once, and those that keep theirs are not.
func (c *cycle) noteCanary(nominating *fwk.NominatingInfo, status *fwk.Status) {
	if c.loop.Canaries == nil || c.share == 0 || c.resizes() || c.pod.Attempts > 1 {
		return
	}
	c.firstAttempt = true
	var failed []rollout.Metric
	if !status.IsSuccess() {
		failed = append(failed, rollout.Unschedulable)
	}
	if preempts(nominating) {
		failed = append(failed, rollout.Preempting)
	}
	c.loop.Canaries.Note(canary.Decided{Profile: c.profile, Pod: c.pod.Pod, Share: c.share, Took: c.took,
		Failed: failed})
}

// noteUnbound notes that the first attempt at a pod failed after it was placed.
func (c *cycle) noteUnbound(ctx context.Context, pod *corev1.Pod) {
	if c.firstAttempt && ctx.Err() == nil {
		c.loop.Canaries.Note(canary.Decided{Profile: c.profile, Pod: pod, Share: c.share,
			Failed: []rollout.Metric{rollout.Unschedulable}})
	}
}

// noteCanary notes the outcome of the first attempt at a group, which is one owner.
func (g *groupCycle) noteCanary(fits bool) {
	if g.loop.Canaries == nil || len(g.members) == 0 || g.members[0].cycle.share == 0 {
		return
	}
	var failed []rollout.Metric
	if !fits {
		failed = append(failed, rollout.Unschedulable)
	}
	for _, m := range g.members {
		if m.pod.Attempts > 1 {
			return
		}
		if preempts(m.nominating) && !slices.Contains(failed, rollout.Preempting) {
			failed = append(failed, rollout.Preempting)
		}
	}
	for _, m := range g.members {
		m.cycle.firstAttempt = true
	}
	g.loop.Canaries.Note(canary.Decided{Profile: g.Profile, Pod: g.members[0].pod.Pod, Share: g.members[0].cycle.share,
		Failed: failed})
}

// preempts reports whether PostFilter has nominated a pod for a node, where it makes room.
func preempts(nominating *fwk.NominatingInfo) bool {
	return nominating != nil && nominating.NominatedNodeName != ""
}
