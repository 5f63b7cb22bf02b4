// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// maxReservePlacements bounds the work of Reserve, in members that are placed, beyond one for each.
const maxReservePlacements = 4096

// Reserve returns the nodes that the members would get once other pods there have ended, "" for
// members without one: those where they fit now, and then the ones with the least to wait for. It
// returns nil if it finds no nodes for enough of them. stick are nodes that it tries first, so that
// a group that is tried again does not begin to wait for others. No member has a node in the end.
func (a *Attempt) Reserve(ctx context.Context, stick sets.Set[string]) ([]string, error) {
	nodes, err := a.nodes(ctx)
	if err != nil {
		return nil, err
	}
	demand := a.demand()
	domains := a.Group.Topology.CandidatesWithout(math.MaxInt32, nodes, demand, a.Needed, a.On.Union(stick))
	if len(domains) == 0 {
		return nil, nil
	}
	defer a.startOver(ctx, nil)
	a.startOver(ctx, nil)
	r := &reserving{Attempt: a, domain: domains[0], left: len(a.Members) + maxReservePlacements}
	waiting := r.order(nodes, demand, stick) // before nodes change
	r.place(ctx)
	for _, node := range waiting {
		if r.placed >= a.Needed {
			return a.Nodes(), nil
		}
		a.Cluster.Hide(a.leaving(node)...)
		r.place(ctx)
	}
	if r.placed < a.Needed {
		return nil, nil
	}
	return a.Nodes(), nil
}

// reserving is the state of Reserve.
type reserving struct {
	*Attempt
	domain podgroup.Domain
	placed int
	// left is how many members may still be placed.
	left int
}

// order returns the nodes of the domain that have room for members without their pods: first those
// that stick, and then those that have the most room now.
func (r *reserving) order(nodes []fwk.NodeInfo, demand *podgroup.Demand, stick sets.Set[string]) []fwk.NodeInfo {
	type ranked struct {
		fwk.NodeInfo
		sticks bool
		room   int
	}
	var all []ranked
	for _, node := range nodes {
		if !r.domain.Contains(node.Node()) {
			continue
		}
		next := ranked{NodeInfo: node, sticks: stick.Has(node.Node().Name)}
		if demand != nil {
			one := []fwk.NodeInfo{node}
			if demand.Room(podgroup.Freed(one, math.MaxInt32)) == 0 {
				continue
			}
			next.room = demand.Room(one)
		}
		all = append(all, next)
	}
	slices.SortFunc(all, func(a, b ranked) int {
		if a.sticks != b.sticks {
			if a.sticks {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.room, a.room), cmp.Compare(a.Node().Name, b.Node().Name))
	})
	ordered := make([]fwk.NodeInfo, len(all))
	for i := range all {
		ordered[i] = all[i].NodeInfo
	}
	return ordered
}

// place places the members that have no node. A member that is like one that has just been refused
// is not tried.
func (r *reserving) place(ctx context.Context) {
	var refused []*corev1.Pod
	for i, info := range r.Members {
		pod := info.GetPod()
		alike := func(other *corev1.Pod) bool { return podfields.SameRequests(pod, other) }
		if r.Outcomes[i].Node != "" || slices.ContainsFunc(refused, alike) {
			continue
		}
		if r.left--; r.left < 0 {
			return
		}
		if r.Attempt.place(ctx, i, r.domain) {
			r.placed++
		} else {
			refused = append(refused, pod)
		}
	}
}

// leaving returns the pods of a node that may end: not those that stay with the node, nor
// those of the group itself.
func (a *Attempt) leaving(node fwk.NodeInfo) (pods []*corev1.Pod) {
	for _, info := range node.GetPods() {
		if pod := info.GetPod(); !podfields.StaysWithNode(pod) && podgroup.KeyOf(pod) != a.Group.Key {
			pods = append(pods, pod)
		}
	}
	return pods
}
