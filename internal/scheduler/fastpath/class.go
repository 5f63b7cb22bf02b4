// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"container/list"
	"context"

	corev1 "k8s.io/api/core/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath/topology"
)

// podBytes is about what a pod takes that a class keeps alive.
const podBytes = 4096

// class is the pods with equal keys.
type class struct {
	key   string
	id    cache.ClassID
	like  *schedframework.PodInfo
	local *localRows

	// trackers are those that affect the class, once tracked is true. spread are the constraints
	// that the tracker of PodTopologySpread is made from; nil if there are none.
	trackers []*tracker
	tracked  bool
	spread   *topology.SpreadConstraints
	// groups are those of the nodes that the class last used; nil if none.
	groups *groups
	// explanation is kept for pods that fit nowhere.
	explanation explanation
	// besides are the answers for nodes with nominated pods, which the class's pods fit otherwise.
	besides map[cache.Slot]beside

	// used is the place of the class in classTable.used. bytes is what it was last accounted with,
	// without what it may share.
	used  *list.Element
	bytes int
}

// copyOf returns a pod for a class to keep. It is a copy, as whoever schedules the pod may set its
// node.
func copyOf(pod *corev1.Pod) (*schedframework.PodInfo, error) {
	own := *pod
	like, err := schedframework.NewPodInfo(&own)
	if err != nil {
		return nil, err
	}
	like.CalculateResource()
	return like, nil
}

// size is about what a class holds in memory, without what it may share.
func (c *class) size() int {
	bytes := podBytes + 2*len(c.key) + c.explanation.size() + besideBytes*len(c.besides)
	if c.spread != nil {
		bytes += podBytes
	}
	return bytes
}

// standsAlone reports whether PodTopologySpread and InterPodAffinity do nothing for a pod: it has
// no constraints, nor do the default ones apply, and neither it nor any pod that runs has affinity
// terms.
func (c *class) standsAlone(ctx context.Context, snapshot *cache.Snapshot, pod *corev1.Pod) bool {
	p := c.local.instance.Plan
	if p.hasAffinity && (snapshot.WithAffinity().Len() > 0 || hasTerms(c.like)) {
		return false
	}
	if !p.hasSpread {
		return true
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return false
	}
	// The plugin itself knows of the default constraints.
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

func hasTerms(pod *schedframework.PodInfo) bool {
	return len(pod.RequiredAffinityTerms)+len(pod.RequiredAntiAffinityTerms)+
		len(pod.PreferredAffinityTerms)+len(pod.PreferredAntiAffinityTerms) > 0
}
