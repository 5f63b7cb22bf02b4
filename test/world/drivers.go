// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
)

// The conditions of devices that a driver attaches to a node before a pod can be bound.
const (
	isAttached = "example.com/attached"
	isBroken   = "example.com/broken"
)

// publish makes a driver publish the devices of a node, which are a pool. If attached, pods can only
// be bound once the driver has attached their devices to the node.
func (w *World) publish(node string, devices int, attached bool) {
	w.log.add("publish %d devices of %s", devices, node)
	slice := objects.Device("devices-"+node, node)
	slice.Spec.Pool.Name = node
	slice.Spec.Devices = nil
	for i := range devices {
		device := resourcev1.Device{Name: fmt.Sprint("device-", i)}
		if attached {
			device.BindsToNode = ptr.To(true)
			device.BindingConditions, device.BindingFailureConditions = []string{isAttached}, []string{isBroken}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	w.counts["pools"]++
	slice.Spec.Pool.Generation = int64(w.counts["pools"])
	known := w.cluster.slices["/registry/resourceslices/"+slice.Name]
	if known == nil {
		w.must(w.cluster.objects.Create(w.ctx, slice))
		return
	}
	slice.ResourceVersion = known.ResourceVersion
	w.must(w.cluster.objects.Update(w.ctx, slice))
}

// withdrawDevices deletes the slice of a node that is gone, as the garbage collector does.
func (w *World) withdrawDevices(node *corev1.Node) {
	w.after(w.kubeletDelay(), func() {
		if slice := w.cluster.slices["/registry/resourceslices/devices-"+node.Name]; slice != nil {
			w.must(w.cluster.objects.Delete(w.ctx, slice))
		}
	})
}

// maxAttaching is how long a driver takes to attach the devices of a claim.
const maxAttaching = 20 * time.Second

// attach lets the driver attach the devices of a claim that was just allocated. While things go
// wrong, it may fail.
func (w *World) attach(claim *resourcev1.ResourceClaim) {
	results := claim.Status.Allocation.Devices.Results
	if len(results[0].BindingConditions) == 0 {
		return
	}
	delay := time.Duration(w.kubelets.Int64N(int64(maxAttaching)))
	condition := metav1.Condition{Type: isAttached, Status: metav1.ConditionTrue, Reason: "Attached"}
	if w.kubelets.IntN(4) == 0 && time.Now().Before(w.troubled) {
		condition.Type, condition.Reason = isBroken, "Failed"
	}
	key := client.ObjectKeyFromObject(claim)
	w.after(delay, func() {
		now := w.claim(key.Namespace, key.Name)
		if now == nil || now.UID != claim.UID || now.Status.Allocation == nil ||
			!now.Status.Allocation.AllocationTimestamp.Equal(claim.Status.Allocation.AllocationTimestamp) {
			return
		}
		now = now.DeepCopy()
		condition.LastTransitionTime = metav1.Now()
		now.Status.Devices = nil
		for _, result := range results {
			now.Status.Devices = append(now.Status.Devices, resourcev1.AllocatedDeviceStatus{Driver: result.Driver,
				Pool: result.Pool, Device: result.Device, Conditions: []metav1.Condition{condition}})
		}
		w.log.add("the driver says that the devices of claim %s are %s", now.Name, condition.Type)
		w.counts["devices "+condition.Reason]++
		w.must(w.cluster.objects.Status().Update(w.ctx, now))
	})
}

// areAttached reports whether the devices of a claim that need it are attached.
func areAttached(claim *resourcev1.ResourceClaim) bool {
	for i, result := range claim.Status.Allocation.Devices.Results {
		if len(result.BindingConditions) > 0 && (i >= len(claim.Status.Devices) ||
			!apimeta.IsStatusConditionTrue(claim.Status.Devices[i].Conditions, isAttached)) {
			return false
		}
	}
	return true
}
