// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// The pods of a group may use the same ResourceClaim. In the attempt at the group, the first of
// them gets it allocated, and the others fit where these devices are: the plugin for devices notes
// the claims in the state of the attempt. Since the allocation is written only when the pods are
// bound, other pods wait for it.

// releasePause is the time between attempts to release devices.
const releasePause = time.Second

// releaseClaims gives up allocations that keep the group from a node, and the reservations of
// claims for a group of which no pod has a node: another attempt may allocate other devices. The
// change of a claim begins it.
func (g *groupCycle) releaseClaims(ctx context.Context) {
	if g.Profile.GroupClaims() == nil {
		return
	}
	pods := make([]*corev1.Pod, len(g.members))
	for i, m := range g.members {
		pods[i] = m.pod.Pod
	}
	var err error
	if g.Tree != nil || g.Group.Topology.Required != "" || len(g.Group.Topology.Preferred) > 0 {
		// Nodes of other domains may take the pods of a group with a topology, or of a tree, with
		// the devices that they have. But no node takes a pod with a claim of its own.
		// kube-scheduler releases nothing for these groups.
		err = deleteOwnClaims(ctx, g.Profile, pods)
	} else {
		err = releaseClaims(ctx, g.Profile, g.state, &g.Group, pods)
	}
	if err != nil {
		g.Why.Message += "; releasing devices: " + err.Error()
		g.tryLater(releasePause)
	}
}

// releaseClaims lets the plugin for devices release claims of pods that fit nowhere. state is the
// one of the attempt at them.
func releaseClaims(
	ctx context.Context, p *profile.Instance, state *schedframework.CycleState, group *podgroup.Group,
	pods []*corev1.Pod,
) error {
	plugin := p.GroupClaims()
	if plugin == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cycleTimeout, errCycleTimeout)
	defer cancel()
	status := p.Framework.RunPodGroupPostFilterPlugin(ctx, state, plugin, &schedframework.PodGroupInfo{
		Namespace: group.Namespace, Name: group.Name, Type: fwk.PodGroupKeyType, UnscheduledPods: pods,
		PodGroup: group.Object(),
	})
	if !status.IsError() || errors.Is(status.AsError(), fwk.ErrNotFound) { // it was asked about none of the pods
		return nil
	}
	return status.AsError()
}

// deleteOwnClaims deletes claims for extended resources of pods that were not bound after all.
func deleteOwnClaims(ctx context.Context, p *profile.Instance, pods []*corev1.Pod) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deletionTimeout, errCycleTimeout)
	defer cancel()
	return p.DeleteOwnClaims(ctx, pods)
}

// deletionTimeout bounds the time for that. The scheduling loop waits, and the members of the group
// that are placed are bound afterwards.
const deletionTimeout = 5 * time.Second

// deleteLeftOver is deleteOwnClaims for the members that are left over while the others are placed.
// The deletion of its claim lets a member be tried again.
func (g *groupCycle) deleteLeftOver(ctx context.Context) {
	var left []*corev1.Pod
	for _, m := range g.members {
		if m.placed == nil {
			left = append(left, m.pod.Pod)
		}
	}
	if len(left) == 0 || g.Profile.GroupClaims() == nil {
		return
	}
	if err := deleteOwnClaims(ctx, g.Profile, left); err != nil {
		g.loop.Queue.RetryGroupAt(g.Group.Key, g.loop.Clock.Now().Add(releasePause))
		utilruntime.HandleErrorWithContext(ctx, err, "Deleting the claims of pods for their extended resources failed",
			"podGroup", g.Group.Key)
	}
}

// stateOfGroup returns a state for a pod that is scheduled by itself and may use claims of its
// group, nil for all others.
func (c *cycle) stateOfGroup() *schedframework.CycleState {
	pod := c.pod.Pod
	if len(pod.Spec.ResourceClaims) == 0 || podgroup.KeyOf(pod).Source != podgroup.Kubernetes ||
		!utilfeature.DefaultFeatureGate.Enabled(features.DRAWorkloadResourceClaims) {
		return nil
	}
	return schedframework.NewCycleState()
}

// releaseGroupClaims is what releaseClaims does for a pod of a group that is scheduled one by one.
// PostFilter has released the claims of the pod itself.
func (c *cycle) releaseGroupClaims(ctx context.Context) {
	state, _ := c.groupState.(*schedframework.CycleState)
	if state == nil || c.inGroup {
		return
	}
	group, _, known := c.loop.Groups.Get(podgroup.KeyOf(c.pod.Pod))
	if !known || len(group.Claims.Wanted) == 0 {
		return
	}
	err := releaseClaims(ctx, c.profile, state, &group, []*corev1.Pod{c.pod.Pod})
	if err != nil && !apierrors.IsConflict(err) { // PostFilter, or another pod, has just changed the claim
		utilruntime.HandleErrorWithContext(ctx, err, "Releasing the claims of a pod group failed",
			"podGroup", group.Key)
	}
}
