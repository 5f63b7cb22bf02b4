// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/binding"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// member is a pod of a groupCycle.
type member struct {
	*cycle
	// placed is set while the pod has a node in the attempt.
	placed     *binding.Cycle
	nominating *fwk.NominatingInfo
}

// members decide the pods of a group in their scheduling cycles.
type members []*member

var _ gang.Decider = members{}

// Decide implements gang.Decider.
func (m members) Decide(ctx context.Context, i int, within podgroup.Domain) gang.Outcome {
	c := m[i]
	c.renew()
	c.within = within
	c.start = c.loop.Clock.Now()
	c.loop.Heartbeat.Begin(c.start)
	var status *fwk.Status
	c.placed, c.nominating, status = c.placeInTime(withPod(ctx, c.pod.Pod))
	if c.placed == nil {
		return gang.Outcome{Status: status, State: c.state}
	}
	return gang.Outcome{Node: c.placed.NodeName, Pod: c.placed.Pod.PodInfo, Class: c.class}
}

// Unreserve implements gang.Decider.
func (m members) Unreserve(ctx context.Context, i int) {
	c := m[i]
	c.loop.Decisions.Finish(c.decision, decisionlog.Unschedulable)
	c.unreserve(withPod(ctx, c.pod.Pod), c.placed)
	c.placed = nil
	if c.nominatedTo != "" {
		to := &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: c.nominatedTo}
		c.loop.Queue.Nominator().AddNominatedPod(klog.FromContext(ctx), c.pod.PodInfo, to)
	}
}
