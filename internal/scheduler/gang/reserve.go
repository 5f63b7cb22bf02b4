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
func (a *Attempt) Reserve(ctx context.Context, stick sets.Set[string]) []string {
	nodes, demand := a.nodes(), a.demand()
	domains := a.Group.Topology.CandidatesWithout(math.MaxInt32, nodes, demand, a.Needed, a.On.Union(stick))
	if len(domains) == 0 {
		return nil
	}
	defer a.startOver(ctx, nil)
	a.startOver(ctx, nil)
	domain, left := domains[0], len(a.Members)+maxReservePlacements
	waiting := leavingOrder(nodes, domain, demand, stick) // before nodes change
	left = a.placeRest(ctx, domain, left)
	for _, node := range waiting {
		if len(a.placed) >= a.Needed {
			break
		}
		a.hide(ctx, a.leaving(node)...)
		left = a.placeRest(ctx, domain, left)
	}
	if len(a.placed) < a.Needed {
		return nil
	}
	return a.Nodes()
}

// leavingOrder returns the nodes of a domain that have room for members without their pods: first
// those that stick, and then those that have the most room now.
func leavingOrder(nodes []fwk.NodeInfo, domain podgroup.Domain, demand *podgroup.Demand, stick sets.Set[string]) []fwk.NodeInfo {
	type ranked struct {
		fwk.NodeInfo
		sticks bool
		room   int
	}
	var all []ranked
	for _, node := range nodes {
		if !domain.Contains(node.Node()) {
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

// placeRest places the members that have no node, left at most, and returns how many more may be
// placed. A member that is like one that has just been refused is not tried.
func (a *Attempt) placeRest(ctx context.Context, domain podgroup.Domain, left int) int {
	var refused []*corev1.Pod
	for i, info := range a.Members {
		pod := info.GetPod()
		alike := func(other *corev1.Pod) bool { return podfields.SameRequests(pod, other) }
		if a.Outcomes[i].Node != "" || slices.ContainsFunc(refused, alike) {
			continue
		}
		if left == 0 {
			break
		}
		left--
		if !a.place(ctx, i, domain) {
			refused = append(refused, pod)
		}
	}
	return left
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
