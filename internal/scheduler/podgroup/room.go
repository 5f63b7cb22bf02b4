// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// maxClasses bounds the kinds of pods for which room is counted. Pods of further kinds count as if
// there was room for all.
const maxClasses = 32

// Demand is what the pods of a group request, by classes of pods that request the same and may be
// on the same nodes.
type Demand struct {
	classes []class
	// others is the number of pods of further classes.
	others int
}

// class is pods that are like one of them.
type class struct {
	one     *corev1.Pod
	request fwk.Resource
	// extended are the extended resources that count.
	extended []extended
	admits   func(node fwk.NodeInfo) bool
	pods     int
}

// extended is a request of an extended resource.
type extended struct {
	name corev1.ResourceName
	want int64
}

// NewDemand returns the demand of pods. counts selects the extended resources that the plugin
// NodeResourcesFit checks on every node. admits returns the nodes that a pod may be on, as far as
// filters go that look at the object of a node only.
func NewDemand(
	pods []fwk.PodInfo, counts func(corev1.ResourceName) bool, admits func(*corev1.Pod) func(fwk.NodeInfo) bool,
) *Demand {
	d := &Demand{}
	for _, pod := range pods {
		d.add(pod)
	}
	for i := range d.classes {
		c := &d.classes[i]
		c.admits = admits(c.one)
		for name, want := range c.request.GetScalarResources() {
			if want > 0 && counts(name) {
				c.extended = append(c.extended, extended{name, want})
			}
		}
	}
	return d
}

func (d *Demand) add(info fwk.PodInfo) {
	pod := info.GetPod()
	for i := range d.classes {
		if one := d.classes[i].one; podfields.SameRequests(one, pod) && podfields.SameNodes(one, pod) {
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

// Room returns how many of the pods have room on nodes at most, as far as resources go: no way to
// place them gives a node to more. Each class is counted as if it was alone.
func (d *Demand) Room(nodes []fwk.NodeInfo) int {
	room := d.others
	for i := range d.classes {
		room += d.classes[i].room(nodes)
	}
	return room
}

// measured is the room on nodes.
type measured struct {
	// fits is the Room, and room is for how many pods there is room on nodes that admit them.
	fits, room int
	// capacity is how many pods like these have room there if there were more of them. It tells
	// which nodes have more room than others.
	capacity int
}

// measure returns the room on nodes.
func (d *Demand) measure(nodes []fwk.NodeInfo) measured {
	m := measured{fits: d.others, room: d.others}
	for i := range d.classes {
		c := &d.classes[i]
		fits, room := 0, 0
		for _, node := range nodes {
			if on := c.roomOn(node); on > 0 {
				fits += on
				if c.admits(node) {
					room += on
				}
			}
		}
		m.fits += min(fits, c.pods)
		m.room += min(room, c.pods)
		m.capacity += room
	}
	return m
}

// On returns the room of a node for pods like these, if it admits them.
func (d *Demand) On(node fwk.NodeInfo) int { return d.measure([]fwk.NodeInfo{node}).capacity }

// room returns for how many pods of the class there is room.
func (c *class) room(nodes []fwk.NodeInfo) int {
	room := 0
	for _, node := range nodes {
		if room += c.roomOn(node); room >= c.pods {
			return c.pods
		}
	}
	return room
}

// roomOn returns the room on one node. Most nodes of a full cluster lack CPU, and are not looked at
// any further.
func (c *class) roomOn(node fwk.NodeInfo) int {
	allocatable, requested := node.GetAllocatable(), node.GetRequested()
	room := int64(math.MaxInt32)
	// restrict reports whether there is room, as far as it knows.
	restrict := func(want, total, used int64) bool {
		if want > 0 {
			room = min(room, (total-used)/want)
		}
		return room > 0
	}
	if !restrict(c.request.GetMilliCPU(), allocatable.GetMilliCPU(), requested.GetMilliCPU()) ||
		!restrict(c.request.GetMemory(), allocatable.GetMemory(), requested.GetMemory()) ||
		!restrict(c.request.GetEphemeralStorage(), allocatable.GetEphemeralStorage(), requested.GetEphemeralStorage()) {
		return 0
	}
	for _, x := range c.extended {
		if !restrict(x.want, allocatable.GetScalarResources()[x.name], requested.GetScalarResources()[x.name]) {
			return 0
		}
	}
	return int(max(0, min(room, int64(allocatable.GetAllowedPodNumber()-len(node.GetPods())))))
}
