// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Zones is the number of zones of the nodes.
const Zones = 3

const nodePrefix = "node-"

// NodeName returns the name of the i-th node.
func NodeName(i int) string { return fmt.Sprintf("%s%05d", nodePrefix, i) }

// PulledImage is the image of the pods of kind [Pulled].
const PulledImage = "registry.example/pulled:1"

// Node returns the i-th node: 8 CPUs, 32 GiB and room for 110 pods, in one of three zones in turn,
// with the labels of a cloud provider's node. A third of the nodes of each zone have [PulledImage].
func Node(i int) *corev1.Node {
	name := NodeName(i)
	room := requests("8", "32Gi")
	room[corev1.ResourceEphemeralStorage] = resource.MustParse("100Gi")
	room[corev1.ResourcePods] = resource.MustParse("110")
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:           name,
				corev1.LabelOSStable:           "linux",
				corev1.LabelArchStable:         "amd64",
				corev1.LabelInstanceTypeStable: "medium",
				corev1.LabelTopologyRegion:     "region-1",
				corev1.LabelTopologyZone:       ZoneOf(i),
			},
		},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room.DeepCopy()},
	}
	if i/Zones%3 == 0 {
		Pull(node)
	}
	return node
}

// Pull adds [PulledImage] to the images of a node.
func Pull(node *corev1.Node) {
	node.Status.Images = append(node.Status.Images,
		corev1.ContainerImage{Names: []string{PulledImage}, SizeBytes: 900 << 20})
}

// ZoneOf returns the zone of the i-th node.
func ZoneOf(i int) string { return fmt.Sprintf("zone-%c", 'a'+i%Zones) }

// ZoneIndex returns the number, from 0, of a node's zone, which its name determines. It returns
// false for a name that NodeName does not return.
func ZoneIndex(nodeName string) (int, bool) {
	i, ok := NodeIndex(nodeName)
	return i % Zones, ok
}

// NodeIndex returns the number of a node. It returns false for a name that NodeName does not
// return.
func NodeIndex(nodeName string) (int, bool) {
	digits, ok := strings.CutPrefix(nodeName, nodePrefix)
	i, err := strconv.Atoi(digits)
	if !ok || err != nil || NodeName(i) != nodeName {
		return 0, false
	}
	return i, true
}
