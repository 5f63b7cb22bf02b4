// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// freed is a node without some of its pods, as far as Demand looks at it.
type freed struct {
	fwk.NodeInfo
	requested fwk.Resource
	pods      []fwk.PodInfo
}

// GetRequested returns what the pods that stay request.
func (f *freed) GetRequested() fwk.Resource { return f.requested }

// GetPods returns the pods that stay.
func (f *freed) GetPods() []fwk.PodInfo { return f.pods }

// Freed returns a node as it would be without its pods of a lower priority. Only its resources and
// pods are different. priorityOf returns the priority that counts for a pod.
func Freed(node fwk.NodeInfo, priority int32, priorityOf func(*corev1.Pod) int32) fwk.NodeInfo {
	var requested *schedframework.Resource
	pods := node.GetPods()
	stay := 0
	for _, info := range pods {
		if priorityOf(info.GetPod()) >= priority {
			stay++
			continue
		}
		if requested == nil {
			requested = node.GetRequested().(*schedframework.Resource).Clone()
		}
		subtract(requested, info.CalculateResource().Resource)
	}
	if requested == nil {
		return node
	}
	f := &freed{NodeInfo: node, requested: requested, pods: make([]fwk.PodInfo, 0, stay)}
	for _, info := range pods {
		if priorityOf(info.GetPod()) >= priority {
			f.pods = append(f.pods, info)
		}
	}
	return f
}

func subtract(from *schedframework.Resource, r fwk.Resource) {
	from.MilliCPU -= r.GetMilliCPU()
	from.Memory -= r.GetMemory()
	from.EphemeralStorage -= r.GetEphemeralStorage()
	for name, quantity := range r.GetScalarResources() {
		from.ScalarResources[name] -= quantity
	}
}

// Current returns a node as it is with all its pods.
func Current(node fwk.NodeInfo) fwk.NodeInfo {
	if f, ok := node.(*freed); ok {
		return f.NodeInfo
	}
	return node
}
