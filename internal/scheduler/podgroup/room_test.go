// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

const gpu corev1.ResourceName = "example.com/gpu"

func resources(cpu, memory, gpus, pods int) corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(cpu)),
		corev1.ResourceMemory: resource.MustParse(fmt.Sprint(memory))}
	if gpus > 0 {
		list[gpu] = resource.MustParse(fmt.Sprint(gpus))
	}
	if pods > 0 {
		list[corev1.ResourcePods] = resource.MustParse(fmt.Sprint(pods))
	}
	return list
}

func nodeWith(list corev1.ResourceList) *schedframework.NodeInfo {
	node := schedframework.NewNodeInfo()
	node.SetNode(&corev1.Node{Status: corev1.NodeStatus{Allocatable: list}})
	return node
}

func podWith(t testing.TB, list corev1.ResourceList) *schedframework.PodInfo {
	info, err := schedframework.NewPodInfo(
		&corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func everyResource(corev1.ResourceName) bool { return true }

func everyNode(*corev1.Pod) func(fwk.NodeInfo) bool {
	return func(fwk.NodeInfo) bool { return true }
}

func TestRoom(t *testing.T) {
	full := nodeWith(resources(4, 8, 0, 10))
	full.AddPodInfo(podWith(t, resources(4, 1, 0, 0)))
	for name, test := range map[string]struct {
		pods   []corev1.ResourceList
		nodes  []fwk.NodeInfo
		counts func(corev1.ResourceName) bool
		want   int
	}{
		"no nodes": {[]corev1.ResourceList{resources(1, 1, 0, 0)}, nil, everyResource, 0},
		"as many as fit": {repeated(resources(1, 1, 0, 0), 9),
			[]fwk.NodeInfo{nodeWith(resources(4, 8, 0, 10)), nodeWith(resources(2, 8, 0, 10))}, everyResource, 6},
		"no more than there": {repeated(resources(1, 1, 0, 0), 3), []fwk.NodeInfo{nodeWith(resources(4, 8, 0, 10))},
			everyResource, 3},
		"pods on the node": {repeated(resources(0, 0, 0, 0), 20), []fwk.NodeInfo{nodeWith(resources(4, 8, 0, 10))},
			everyResource, 10},
		"a full node": {repeated(resources(1, 1, 0, 0), 3), []fwk.NodeInfo{full}, everyResource, 0},
		"memory": {repeated(resources(1, 3, 0, 0), 4), []fwk.NodeInfo{nodeWith(resources(4, 8, 0, 10))},
			everyResource, 2},
		"devices": {repeated(resources(1, 1, 2, 0), 4),
			[]fwk.NodeInfo{nodeWith(resources(4, 8, 5, 10)), nodeWith(resources(4, 8, 0, 10))}, everyResource, 2},
		"devices that do not count": {
			repeated(resources(1, 1, 2, 0), 4), []fwk.NodeInfo{nodeWith(resources(4, 8, 0, 10))},
			func(corev1.ResourceName) bool { return false }, 4,
		},
		"two classes": {
			append(repeated(resources(1, 1, 0, 0), 3), repeated(resources(4, 1, 0, 0), 3)...),
			[]fwk.NodeInfo{nodeWith(resources(4, 8, 0, 10))}, everyResource, 4,
		},
	} {
		var pods []fwk.PodInfo
		for _, list := range test.pods {
			pods = append(pods, podWith(t, list))
		}
		if got := NewDemand(pods, test.counts, everyNode, cpuAndMemory).Room(test.nodes); got != test.want {
			t.Errorf("%s: there is room for %d, want %d", name, got, test.want)
		}
	}
}

func repeated(list corev1.ResourceList, n int) []corev1.ResourceList {
	lists := make([]corev1.ResourceList, n)
	for i := range lists {
		lists[i] = list
	}
	return lists
}

// TestRoomIsNeverTooSmall places pods at random, which never finds more room.
func TestRoomIsNeverTooSmall(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		var pods []fwk.PodInfo
		for range 1 + random.IntN(60) {
			pods = append(pods, podWith(t, resources(random.IntN(4), random.IntN(5), random.IntN(3), 0)))
		}
		var nodes []fwk.NodeInfo
		for range 1 + random.IntN(8) {
			nodes = append(nodes,
				nodeWith(resources(random.IntN(12), random.IntN(16), random.IntN(6), 1+random.IntN(10))))
		}
		room, placed := NewDemand(pods, everyResource, everyNode, cpuAndMemory).Room(nodes), 0
		for _, pod := range pods {
			single := NewDemand([]fwk.PodInfo{pod}, everyResource, everyNode, cpuAndMemory)
			for _, i := range random.Perm(len(nodes)) {
				if single.Room(nodes[i:i+1]) == 1 {
					nodes[i].(*schedframework.NodeInfo).AddPodInfo(pod)
					placed++
					break
				}
			}
		}
		if placed > room {
			t.Fatalf("seed %d: %d pods have a node, but there is room for %d", seed, placed, room)
		}
	}
}
