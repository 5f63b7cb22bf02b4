// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// State is the state of the scheduler.
type State struct {
	Cache *cache.Dump
	// Queue holds the pods that wait or are in flight.
	Queue []queue.PodState
	// Nominations are the nominated nodes of pods.
	Nominations []queue.Nomination
	// Served are the scheduler names that have a profile.
	Served sets.Set[string]
	// Devices are those that plugins take for allocated, without pending allocations.
	Devices devices.Allocations
	// DeferredResizes means that the queue has the pods whose resize is deferred, too.
	DeferredResizes bool
}

// requestsOf returns the resources that a pod takes up on its node.
func requestsOf(pod fwk.PodInfo) *schedframework.Resource {
	requests := &schedframework.Resource{}
	add(requests, pod.CalculateResource().Resource)
	return requests
}

// add adds up requests.
func add(to *schedframework.Resource, r fwk.Resource) {
	to.MilliCPU += r.GetMilliCPU()
	to.Memory += r.GetMemory()
	to.EphemeralStorage += r.GetEphemeralStorage()
	for name, quantity := range r.GetScalarResources() {
		to.AddScalar(name, quantity)
	}
}

// sameResource reports whether two sums are equal. A resource with a request of zero equals one
// that is not named.
func sameResource(a, b *schedframework.Resource) bool { return format(a) == format(b) }

// format returns a resource sum in the usual notation: "cpu=1500m memory=2Gi".
func format(r *schedframework.Resource) string {
	var parts []string
	put := func(name corev1.ResourceName, q *resource.Quantity) {
		if !q.IsZero() {
			parts = append(parts, fmt.Sprintf("%s=%s", name, q))
		}
	}
	put(corev1.ResourceCPU, resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI))
	put(corev1.ResourceMemory, resource.NewQuantity(r.Memory, resource.BinarySI))
	put(corev1.ResourceEphemeralStorage, resource.NewQuantity(r.EphemeralStorage, resource.BinarySI))
	for _, name := range slices.Sorted(maps.Keys(r.ScalarResources)) {
		put(name, resource.NewQuantity(r.ScalarResources[name], resource.DecimalSI))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " ")
}
