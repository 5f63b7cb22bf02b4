// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

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
	scored []schedconfig.ResourceSpec
}

// class is pods that are like one of them.
type class struct {
	one     *corev1.Pod
	request fwk.PodResource
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
// filters go that look at the object of a node only. scored are the resources whose allocated share
// ranks domains.
func NewDemand(
	pods []fwk.PodInfo, counts func(corev1.ResourceName) bool, admits func(*corev1.Pod) func(fwk.NodeInfo) bool,
	scored []schedconfig.ResourceSpec,
) *Demand {
	d := &Demand{scored: scored}
	for _, pod := range pods {
		d.add(pod)
	}
	for i := range d.classes {
		c := &d.classes[i]
		c.admits = admits(c.one)
		for name, want := range c.request.Resource.GetScalarResources() {
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
	d.classes = append(d.classes, class{one: pod, request: info.CalculateResource(), pods: 1})
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
	// placed is the number of pods of each class for which there is room.
	placed []int
}

// measure returns the room on nodes.
func (d *Demand) measure(nodes []fwk.NodeInfo) measured {
	m := measured{fits: d.others, room: d.others, placed: make([]int, len(d.classes))}
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
		m.placed[i] = min(room, c.pods)
		m.fits += min(fits, c.pods)
		m.room += m.placed[i]
		m.capacity += room
	}
	return m
}

// allocated returns the share of the scored resources of nodes that is allocated after the given
// number of pods of each class is placed there, in percent. It is the score of kube-scheduler's
// plugin NodeResourcesFit for a placement (noderesources/resource_allocation.go, scorePlacement):
// the mean of the resources by their weight, without resources that no node has, and extended ones
// that no pod requests.
func (d *Demand) allocated(nodes []fwk.NodeInfo, placed []int) int64 {
	var sum, weights int64
	for _, r := range d.scored {
		name := corev1.ResourceName(r.Name)
		var used, total int64
		for i := range d.classes {
			request := &d.classes[i].request
			used += int64(placed[i]) * amount(name, request.Resource, request.Non0CPU, request.Non0Mem)
		}
		if used == 0 && schedutil.IsScalarResourceName(name) {
			continue
		}
		for _, node := range nodes {
			allocatable, least := node.GetAllocatable(), node.GetNonZeroRequested()
			if has := amount(name, allocatable, allocatable.GetMilliCPU(), allocatable.GetMemory()); has > 0 {
				total += has
				used += amount(name, node.GetRequested(), least.GetMilliCPU(), least.GetMemory())
			}
		}
		if total > 0 {
			sum += min(used, total) * fwk.MaxScore / total * r.Weight
			weights += r.Weight
		}
	}
	return sum / max(weights, 1)
}

// amount returns how much of a resource there is, where CPU and memory are known.
func amount(name corev1.ResourceName, of fwk.Resource, cpu, memory int64) int64 {
	switch name {
	case corev1.ResourceCPU:
		return cpu
	case corev1.ResourceMemory:
		return memory
	case corev1.ResourceEphemeralStorage:
		return of.GetEphemeralStorage()
	}
	return of.GetScalarResources()[name]
}

// On returns the room of a node for pods like these, if it admits them.
func (d *Demand) On(node fwk.NodeInfo) int {
	on := 0
	for i := range d.classes {
		if room := d.classes[i].roomOn(node); room > 0 && d.classes[i].admits(node) {
			on += room
		}
	}
	return on
}

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
	want := c.request.Resource
	// restrict reports whether there is room, as far as it knows.
	restrict := func(each, total, used int64) bool {
		if each > 0 {
			room = min(room, (total-used)/each)
		}
		return room > 0
	}
	if !restrict(want.GetMilliCPU(), allocatable.GetMilliCPU(), requested.GetMilliCPU()) ||
		!restrict(want.GetMemory(), allocatable.GetMemory(), requested.GetMemory()) ||
		!restrict(want.GetEphemeralStorage(), allocatable.GetEphemeralStorage(), requested.GetEphemeralStorage()) {
		return 0
	}
	for _, x := range c.extended {
		if !restrict(x.want, allocatable.GetScalarResources()[x.name], requested.GetScalarResources()[x.name]) {
			return 0
		}
	}
	return int(max(0, min(room, int64(allocatable.GetAllowedPodNumber()-len(node.GetPods())))))
}
