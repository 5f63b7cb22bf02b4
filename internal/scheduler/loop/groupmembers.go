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
func (all members) Decide(ctx context.Context, i int, within podgroup.Domain) gang.Outcome {
	m := all[i]
	m.renew()
	m.within = within
	m.start = m.loop.Clock.Now()
	m.loop.Heartbeat.Begin(m.start)
	var status *fwk.Status
	m.placed, m.nominating, status = m.placeInTime(withPod(ctx, m.pod.Pod))
	if m.placed == nil {
		return gang.Outcome{Status: status, State: m.state}
	}
	return gang.Outcome{Node: m.placed.NodeName, Pod: m.placed.Pod.PodInfo, Class: m.class}
}

// Unreserve implements gang.Decider.
func (all members) Unreserve(ctx context.Context, i int) {
	m := all[i]
	m.loop.Decisions.Finish(m.decision, decisionlog.Unschedulable)
	m.unreserve(withPod(ctx, m.pod.Pod), m.placed)
	m.placed = nil
	if m.nominatedTo != "" {
		to := &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: m.nominatedTo}
		m.loop.Queue.Nominator().AddNominatedPod(klog.FromContext(ctx), m.pod.PodInfo, to)
	}
}
