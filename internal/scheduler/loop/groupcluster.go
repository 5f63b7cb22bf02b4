// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// groupCluster places the members of a groupCycle on the cluster.
type groupCluster struct {
	*Loop
	members []*member
}

var _ gang.Cluster = &groupCluster{}

// Snapshot implements gang.Cluster.
func (c *groupCluster) Snapshot(ctx context.Context) (*cache.Snapshot, error) {
	return c.Loop.Snapshot, c.members[0].updateSnapshot(ctx)
}

// Place implements gang.Cluster.
func (c *groupCluster) Place(ctx context.Context, i int, within podgroup.Domain) gang.Outcome {
	m := c.members[i]
	m.renew()
	m.within = within
	m.start = c.Clock.Now()
	c.Heartbeat.Begin(m.start)
	var status *fwk.Status
	m.placed, m.nominating, status = m.placeInTime(withPod(ctx, m.pod.Pod))
	if m.placed == nil {
		return gang.Outcome{Status: status, State: m.state}
	}
	return gang.Outcome{Node: m.placed.NodeName}
}

// TakeBack implements gang.Cluster. Nobody has seen the member on its node: the loop has not looked
// at any other pod in the meantime.
func (c *groupCluster) TakeBack(ctx context.Context, i int) {
	m := c.members[i]
	c.Decisions.Finish(m.decision, decisionlog.Unschedulable)
	m.undo(withPod(ctx, m.pod.Pod), m.placed)
	m.placed = nil
	if m.nominatedTo != "" {
		to := &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: m.nominatedTo}
		c.Queue.Nominator().AddNominatedPod(klog.FromContext(ctx), m.pod.PodInfo, to)
	}
}

// Hide implements gang.Cluster.
func (c *groupCluster) Hide(pods ...*corev1.Pod) { c.Cache.Hide(pods...) }

// Show implements gang.Cluster.
func (c *groupCluster) Show() { c.Cache.Show() }
