// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// maxClasses bounds the kinds of pods for which room is counted. Pods of further kinds count as if
// there was room for all.
const maxClasses = 32

// Demand is what the pods of a group request, by classes of pods that request the same.
type Demand struct {
	classes []class
	// others is the number of pods of further classes.
	others int
}

// class is pods that request the same as one of them.
type class struct {
	one     *corev1.Pod
	request fwk.Resource
	// scalar are the extended resources that count.
	scalar map[corev1.ResourceName]int64
	pods   int
}

// NewDemand returns the demand of pods. counts selects the extended resources that the plugin
// NodeResourcesFit checks on every node.
func NewDemand(pods []fwk.PodInfo, counts func(corev1.ResourceName) bool) *Demand {
	d := &Demand{}
	for _, pod := range pods {
		d.add(pod)
	}
	for i := range d.classes {
		c := &d.classes[i]
		c.scalar = maps.Clone(c.request.GetScalarResources())
		maps.DeleteFunc(c.scalar, func(name corev1.ResourceName, n int64) bool { return n == 0 || !counts(name) })
	}
	return d
}

func (d *Demand) add(info fwk.PodInfo) {
	pod := info.GetPod()
	for i := range d.classes {
		if alike(d.classes[i].one, pod) {
			d.classes[i].pods++
			return
		}
	}
	if len(d.classes) == maxClasses {
		d.others++
		return
	}
	d.classes = append(d.classes, class{one: pod, request: info.CalculateResource().Resource, pods: 1})
}

// alike reports whether two pods write the same requests. That is quicker to see than what they
// request.
func alike(a, b *corev1.Pod) bool {
	return slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, alikeContainers) &&
		slices.EqualFunc(a.Spec.InitContainers, b.Spec.InitContainers, alikeContainers) &&
		alikeLists(a.Spec.Overhead, b.Spec.Overhead) && a.Spec.Resources == nil && b.Spec.Resources == nil
}

func alikeContainers(a, b corev1.Container) bool {
	return alikeLists(a.Resources.Requests, b.Resources.Requests) && ptr.Equal(a.RestartPolicy, b.RestartPolicy)
}

func alikeLists(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// Room returns how many of the pods have room on nodes at most, as far as resources go: no way to
// place them gives a node to more. Each class is counted as if it was alone.
func (d *Demand) Room(nodes []fwk.NodeInfo) int {
	room := d.others
	for i := range d.classes {
		room += d.classes[i].room(nodes)
	}
	return room
}

// Capacity returns how many pods like these have room on nodes, if there were more of them. It
// tells which nodes have more room than others.
func (d *Demand) Capacity(nodes []fwk.NodeInfo) int {
	capacity := 0
	for i := range d.classes {
		for _, node := range nodes {
			capacity += d.classes[i].roomOn(node, math.MaxInt32)
		}
	}
	return capacity
}

// room returns for how many pods of the class there is room, and no more than there are.
func (c *class) room(nodes []fwk.NodeInfo) int {
	room := 0
	for _, node := range nodes {
		room += c.roomOn(node, c.pods-room)
		if room == c.pods {
			return room
		}
	}
	return room
}

// roomOn returns the room on one node, and limit at most.
func (c *class) roomOn(node fwk.NodeInfo, limit int) int {
	allocatable, requested := node.GetAllocatable(), node.GetRequested()
	room := int64(min(limit, allocatable.GetAllowedPodNumber()-len(node.GetPods())))
	restrict := func(want, total, used int64) {
		if want > 0 {
			room = min(room, (total-used)/want)
		}
	}
	restrict(c.request.GetMilliCPU(), allocatable.GetMilliCPU(), requested.GetMilliCPU())
	restrict(c.request.GetMemory(), allocatable.GetMemory(), requested.GetMemory())
	restrict(c.request.GetEphemeralStorage(), allocatable.GetEphemeralStorage(), requested.GetEphemeralStorage())
	for name, want := range c.scalar {
		restrict(want, allocatable.GetScalarResources()[name], requested.GetScalarResources()[name])
	}
	return int(max(0, room))
}
