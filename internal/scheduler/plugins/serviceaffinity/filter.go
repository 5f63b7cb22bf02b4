// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaffinity

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// ErrReason is the reason for refusing a node, in kube-scheduler's words.
const ErrReason = "node(s) didn't match service affinity"

const stateKey fwk.StateKey = "PreFilter" + Name

// affinity describes the labels that a pod requires of its node.
type affinity struct {
	// selected are the labels whose values the pod itself selects by its node selector.
	selected map[string]string
	// open means that the first mate's node determines the values of the other labels.
	open bool
	// mates are the pods of the same service, in the order of the snapshot.
	mates []mate
}

// mate is a pod with all the labels of the pod to be scheduled, and its node.
type mate struct {
	uid  types.UID
	node *corev1.Node
}

// Clone implements fwk.StateData.
func (a *affinity) Clone() fwk.StateData {
	clone := *a
	clone.mates = slices.Clone(a.mates)
	return &clone
}

// PreFilter collects the pods whose nodes determine where the pod may go. It skips if there are no
// affinity labels.
func (pl *ServiceAffinity) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if len(pl.args.AffinityLabels) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	a := &affinity{selected: map[string]string{}}
	for _, key := range pl.args.AffinityLabels {
		if value, ok := pod.Spec.NodeSelector[key]; ok {
			a.selected[key] = value
		} else {
			a.open = true
		}
	}
	if a.open {
		services, err := helper.GetPodServices(pl.services, pod)
		if err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("listing the services of the pod: %w", err))
		}
		a.open = len(services) > 0
	}
	if a.open {
		a.collect(pod, nodes)
	}
	state.Write(stateKey, a)
	return nil, nil
}

func (a *affinity) collect(pod *corev1.Pod, nodes []fwk.NodeInfo) {
	for _, nodeInfo := range nodes {
		for _, other := range nodeInfo.GetPods() {
			if isMate(pod, other.GetPod()) {
				a.mates = append(a.mates, mate{uid: other.GetPod().UID, node: nodeInfo.Node()})
			}
		}
	}
}

// isMate reports whether other is in the namespace of pod and has all its labels. It does not check
// whether they share a service: the pods of one service share the labels that it selects, and those
// of one controller share all labels.
func isMate(pod, other *corev1.Pod) bool {
	return other.Namespace == pod.Namespace && labels.SelectorFromSet(pod.Labels).Matches(labels.Set(other.Labels))
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (pl *ServiceAffinity) PreFilterExtensions() fwk.PreFilterExtensions { return pl }

// AddPod takes one more pod on a node into account.
func (pl *ServiceAffinity) AddPod(_ context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo,
	nodeInfo fwk.NodeInfo) *fwk.Status {
	a, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if a.open && isMate(pod, added.GetPod()) {
		a.mates = append(a.mates, mate{uid: added.GetPod().UID, node: nodeInfo.Node()})
	}
	return nil
}

// RemovePod takes the removal of a pod into account.
func (pl *ServiceAffinity) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, removed fwk.PodInfo,
	_ fwk.NodeInfo) *fwk.Status {
	a, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	a.mates = slices.DeleteFunc(a.mates, func(m mate) bool { return m.uid == removed.GetPod().UID })
	return nil
}

func read(state fwk.CycleState) (*affinity, error) {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil, fmt.Errorf("reading %q from the cycle state: %w", stateKey, err)
	}
	a, ok := data.(*affinity)
	if !ok {
		return nil, fmt.Errorf("the cycle state has a %T for %q", data, stateKey)
	}
	return a, nil
}

// Filter refuses nodes whose affinity labels differ from what the pod selects or, for other labels,
// from its first mate's node. A label that neither determines may have any value.
func (pl *ServiceAffinity) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod,
	nodeInfo fwk.NodeInfo) *fwk.Status {
	a, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if !labels.SelectorFromSet(a.values(pl.args.AffinityLabels)).Matches(labels.Set(nodeInfo.Node().Labels)) {
		return fwk.NewStatus(fwk.Unschedulable, ErrReason)
	}
	return nil
}

// values returns the labels that a node must have.
func (a *affinity) values(keys []string) map[string]string {
	if !a.open || len(a.mates) == 0 {
		return a.selected
	}
	values := maps.Clone(a.selected)
	for _, key := range keys {
		if _, ok := values[key]; ok {
			continue
		}
		if value, ok := a.mates[0].node.Labels[key]; ok {
			values[key] = value
		}
	}
	return values
}
