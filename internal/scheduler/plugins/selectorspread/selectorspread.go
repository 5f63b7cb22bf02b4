// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selectorspread is the plugin SelectorSpread, which kube-scheduler had up to 1.22: it
// spreads the pods that are selected by the same services, ReplicationControllers, ReplicaSets and
// StatefulSets over nodes and zones. It implements the priorities SelectorSpreadPriority and
// ServiceSpreadingPriority of the legacy Policy API.
//
// kube-scheduler 1.20 replaced it by default constraints of PodTopologySpread. They prefer mostly
// the same nodes but score differently, and PodTopologySpread cannot run with and without them in
// one profile. That is why this plugin exists.
package selectorspread

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/node/topology"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/livesched/livesched/internal/scheduler/plugins/args"
	"github.com/livesched/livesched/internal/scheduler/plugins/siblings"
)

// Name of the plugin.
const Name = "SelectorSpread"

// zoneWeight is the zone's share of the score if nodes have zone labels. The rest is the node's. It
// is a float64, not a constant fraction, so that both shares of 100 add up to 100.
const zoneWeight float64 = 2.0 / 3.0

const selectorKey fwk.StateKey = "PreScore" + Name

// SelectorSpread is the plugin. Its data about a pod is in the pod's cycle state. It takes no
// arguments.
type SelectorSpread struct {
	nodes        fwk.NodeInfoLister
	services     corev1listers.ServiceLister
	controllers  corev1listers.ReplicationControllerLister
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
}

var (
	_ fwk.PreScorePlugin = &SelectorSpread{}
	_ fwk.ScorePlugin    = &SelectorSpread{}
)

// CheckArgs refuses arguments.
func CheckArgs(object runtime.Object) error { return args.Decode(object, &struct{}{}) }

// New is the plugin's factory.
func New(_ context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if err := CheckArgs(object); err != nil {
		return nil, err
	}
	core, apps := handle.SharedInformerFactory().Core().V1(), handle.SharedInformerFactory().Apps().V1()
	return &SelectorSpread{
		nodes:        handle.SnapshotSharedLister().NodeInfos(),
		services:     core.Services().Lister(),
		controllers:  core.ReplicationControllers().Lister(),
		replicaSets:  apps.ReplicaSets().Lister(),
		statefulSets: apps.StatefulSets().Lister(),
	}, nil
}

// Name implements fwk.Plugin.
func (pl *SelectorSpread) Name() string { return Name }

// PreScore determines the pods that the pod is spread with. It skips if nothing selects the pod, so
// that all nodes are equal, and if the pod has its own topology spread constraints, which
// PodTopologySpread handles.
func (pl *SelectorSpread) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	_ []fwk.NodeInfo) *fwk.Status {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	selector := helper.DefaultSelector(pod, pl.services, pl.controllers, pl.replicaSets, pl.statefulSets)
	if selector.Empty() {
		return fwk.NewStatus(fwk.Skip)
	}
	siblings.Remember(state, selectorKey, selector)
	return nil
}

// Score returns the number of siblings on the node.
func (pl *SelectorSpread) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	return siblings.Count(state, selectorKey, pod, nodeInfo)
}

// ScoreExtensions implements fwk.ScorePlugin.
func (pl *SelectorSpread) ScoreExtensions() fwk.ScoreExtensions { return pl }

// NormalizeScore turns the counts into scores: the fewer siblings a node has, compared with the
// node with most, the higher its score. If nodes have zone labels, the siblings in the zone count
// for two thirds.
func (pl *SelectorSpread) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	zones := make([]string, len(scores))
	perZone := map[string]int64{}
	var mostOnNode, mostInZone int64
	for i, score := range scores {
		nodeInfo, err := pl.nodes.Get(score.Name)
		if err != nil {
			return fwk.AsStatus(fmt.Errorf("looking up node %q: %w", score.Name, err))
		}
		mostOnNode = max(mostOnNode, score.Score)
		if zones[i] = topology.GetZoneKey(nodeInfo.Node()); zones[i] != "" {
			perZone[zones[i]] += score.Score
		}
	}
	for _, count := range perZone {
		mostInZone = max(mostInZone, count)
	}
	for i := range scores {
		score := siblings.Score(scores[i].Score, mostOnNode)
		if zones[i] != "" {
			score = score*(1-zoneWeight) + zoneWeight*siblings.Score(perZone[zones[i]], mostInZone)
		}
		scores[i].Score = int64(score)
	}
	return nil
}
