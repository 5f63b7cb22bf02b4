// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

var cpuAndMemory = []schedconfig.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}

// assignment is a pod that kube-scheduler proposes to place.
type assignment struct{ pod *corev1.Pod }

func (a assignment) GetPod() *corev1.Pod           { return a.pod }
func (a assignment) GetPodInfo() fwk.PodInfo       { return nil }
func (a assignment) GetCycleState() fwk.CycleState { return nil }
func (a assignment) GetNodeName() string           { return "" }

// TestAllocatedShare compares the allocated share of random domains with kube-scheduler's score of
// the same placement.
func TestAllocatedShare(t *testing.T) {
	scored := append([]schedconfig.ResourceSpec{{Name: string(gpu), Weight: 5}}, cpuAndMemory...)
	plugin, err := noderesources.NewFit(t.Context(), &schedconfig.NodeResourcesFitArgs{
		ScoringStrategy: &schedconfig.ScoringStrategy{Type: schedconfig.LeastAllocated, Resources: scored},
	}, nil, feature.Features{EnableTopologyAwareWorkloadScheduling: true})
	if err != nil {
		t.Fatal(err)
	}
	shares := map[int64]bool{}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 11))
		var nodes []fwk.NodeInfo
		for range 1 + random.IntN(6) {
			node := nodeWith(resources(random.IntN(12), random.IntN(16), random.IntN(6), 20))
			for range random.IntN(4) {
				node.AddPodInfo(podWith(t, resources(random.IntN(3), random.IntN(3), random.IntN(2), 0)))
			}
			nodes = append(nodes, node)
		}
		var pods []fwk.PodInfo
		request := resources(1+random.IntN(2), random.IntN(3), random.IntN(2), 0)
		for range 1 + random.IntN(10) {
			pods = append(pods, podWith(t, request))
		}
		demand := NewDemand(pods, everyResource, everyNode, scored)
		room := demand.measure(nodes)
		got := demand.allocated(nodes, room.placed)
		placement := &fwk.PodGroupAssignments{Placement: &fwk.Placement{Nodes: nodes}}
		for _, pod := range pods[:room.room] {
			placement.ProposedAssignments = append(placement.ProposedAssignments, assignment{pod.GetPod()})
		}
		want, status := plugin.(fwk.PlacementScorePlugin).ScorePlacement(t.Context(), nil, nil, placement)
		if !status.IsSuccess() || got != want {
			t.Errorf("seed %d: %d %% are allocated after %d pods are placed, kube-scheduler's score is %d, %v",
				seed, got, room.room, want, status)
		}
		shares[want] = true
	}
	if len(shares) < 20 {
		t.Errorf("only %d shares differ", len(shares))
	}
}
