// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Reserve returns the nodes that the members would get once other pods there have ended, "" for
// members without one: those where they fit now, and then the ones with the least to wait for. It
// returns nil if it finds no nodes for enough of them. It tries the nodes first that members are
// nominated for, so that a group that is tried again does not begin to wait for others. No member
// has a node in the end.
func (a *Attempt) Reserve(ctx context.Context) []string {
	freed := a.Memory.freedNodes(a.Overlay.Snapshot(), math.MaxInt32, nil)
	defer a.startOver(ctx, nil)
	a.startOver(ctx, nil)
	a.work = maxWork
	for _, domain := range a.Group.Topology.CandidatesWithout(freed, a.want()) {
		waiting := a.leavingOrder(freed, domain) // before nodes change
		a.placeRest(ctx, domain)
		for _, node := range waiting {
			if len(a.placed) >= a.Needed || a.work <= 0 {
				break
			}
			a.hide(ctx, a.leaving(node)...)
			a.placeRest(ctx, domain)
		}
		if len(a.placed) >= a.Needed {
			return a.Nodes()
		}
		a.startOver(ctx, nil)
	}
	return nil
}

// leavingOrder returns the nodes of a domain that have room for members without their pods: first
// those that members are nominated for, and then those that have the most room now.
func (a *Attempt) leavingOrder(freed []fwk.NodeInfo, domain podgroup.Domain) []fwk.NodeInfo {
	type ranked struct {
		fwk.NodeInfo
		other, room int // other is 0 if a member is nominated for the node
	}
	var all []ranked
	for _, node := range freed {
		if !domain.Contains(node.Node()) {
			continue
		}
		next := ranked{NodeInfo: podgroup.Current(node)}
		if !a.Nominated.Has(node.Node().Name) {
			next.other = 1
		}
		if demand := a.want().Demand; demand != nil {
			if demand.On(node) == 0 {
				continue
			}
			next.room = demand.On(next.NodeInfo)
		}
		all = append(all, next)
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.other, b.other), cmp.Compare(b.room, a.room),
			cmp.Compare(a.Node().Name, b.Node().Name))
	})
	ordered := make([]fwk.NodeInfo, len(all))
	for i := range all {
		ordered[i] = all[i].NodeInfo
	}
	return ordered
}

// placeRest places the members that have no node, as long as there may be work. A member that is
// like one that has just been refused is not tried.
func (a *Attempt) placeRest(ctx context.Context, domain podgroup.Domain) {
	var refused alikes
	for i, info := range a.Members {
		pod := info.GetPod()
		if a.work > 0 && a.Outcomes[i].Node == "" && !refused.has(pod) && !a.place(ctx, i, domain) {
			refused = append(refused, pod)
		}
	}
}

// alikes are pods that stand for all that are like them, except for their labels.
type alikes []*corev1.Pod

func (a alikes) has(pod *corev1.Pod) bool {
	return slices.ContainsFunc(a, func(other *corev1.Pod) bool { return podfields.SameConstraints(pod, other) })
}

// leaving returns the pods of a node that may end: neither pods that stay with the node, nor pods
// of the group itself.
func (a *Attempt) leaving(node fwk.NodeInfo) (pods []*corev1.Pod) {
	for _, info := range node.GetPods() {
		if pod := info.GetPod(); !podfields.StaysWithNode(pod) && !a.owns(podgroup.KeyOf(pod)) {
			pods = append(pods, pod)
		}
	}
	return pods
}
