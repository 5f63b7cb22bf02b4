// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// classBytes estimates the memory of a class besides what size adds: of the struct, and of its
// places in maps and lists.
const classBytes = 768

// class is a set of pods with equal keys.
type class struct {
	key string
	id  cache.ClassID
	// like has the terms and the resources of the pods. Its pod is what likeOf keeps of one of
	// them, and may be given to no plugin. likeBytes is its size.
	like      *schedframework.PodInfo
	likeBytes int
	local     *localRows

	// trackers are those that affect the class, valid once tracked is true. spread are the
	// constraints from which the tracker of PodTopologySpread is made, or nil if there are none.
	trackers []*tracker
	tracked  bool
	// crowded is the position in the log before which nobody tries again to make trackers, because
	// there were too many topology keys.
	crowded uint64
	spread  *topology.SpreadConstraints
	// groups are the groups of nodes that the class last used, or nil if none.
	groups *groups
	// explanation is kept for pods that fit nowhere.
	explanation explanation
	// besides are the nodes with nominated pods, by the priority of the class's pods.
	besides map[int32]*besides

	// bytes is the size of the class when it was last accounted, without what it may share.
	bytes int
	residence
}

// likeOf returns what a class keeps of a pod: not the pod itself, which stays in memory as long as
// the class, and whose annotations, environment and volumes may be large.
func likeOf(pod *corev1.Pod) (*schedframework.PodInfo, error) {
	like, err := schedframework.NewPodInfo(pod)
	if err != nil {
		return nil, err
	}
	like.CalculateResource()
	like.Pod = podfields.KeepForOthers(pod)
	return like, nil
}

// cross returns the cross part of the class's key.
func (c *class) cross() string { return c.key[len(c.local.key):] }

// size estimates the memory of a class, without what it may share.
func (c *class) size() int {
	bytes := classBytes + c.likeBytes + 2*len(c.key) + c.explanation.size()
	for _, b := range c.besides {
		bytes += besideBytes * (1 + len(b.nodes))
	}
	if c.spread != nil {
		bytes += c.spread.Bytes()
	}
	return bytes
}

// standsAlone reports whether PodTopologySpread and InterPodAffinity do nothing for a pod: no
// constraints apply to it, neither its own nor default ones, and neither it nor any running pod has
// affinity terms.
func (c *class) standsAlone(ctx context.Context, r *refresher, pod *corev1.Pod) bool {
	p := r.plan
	if p.hasAffinity && (r.snapshot.WithAffinity().Len() > 0 || cache.HasTerms(c.like)) {
		return false
	}
	if !p.hasSpread {
		return true
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return false
	}
	// The plugin itself knows whether default constraints apply.
	state := schedframework.NewCycleState()
	if p.spreadFilters && !p.spread.AllSkip(ctx, state, pod, nil) {
		return false
	}
	if p.spreadWeight == 0 {
		return true
	}
	status := p.spread.RunPreScorePlugins(ctx, state, pod, nil)
	return status.IsSuccess() && state.GetSkipScorePlugins().Len() > 0
}
