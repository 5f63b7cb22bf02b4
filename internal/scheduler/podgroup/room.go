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
	// extended are the extended resources that count.
	extended []extended
	pods     int
}

// extended is a request of an extended resource.
type extended struct {
	name corev1.ResourceName
	want int64
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
		if podfields.SameRequests(d.classes[i].one, pod) {
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
		c := &d.classes[i]
		room += c.room(nodes, c.pods)
	}
	return room
}

// measure returns the Room on nodes, and the capacity: how many pods like these have room there if
// there were more of them. The capacity tells which nodes have more room than others.
func (d *Demand) measure(nodes []fwk.NodeInfo) (room, capacity int) {
	room = d.others
	for i := range d.classes {
		c := &d.classes[i]
		of := c.room(nodes, math.MaxInt)
		room += min(of, c.pods)
		capacity += of
	}
	return room, capacity
}

// room returns for how many pods of the class there is room, and limit at most.
func (c *class) room(nodes []fwk.NodeInfo, limit int) int {
	room := 0
	for _, node := range nodes {
		if room += c.roomOn(node); room >= limit {
			return limit
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
