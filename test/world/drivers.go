// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
)

// The conditions of devices that a driver attaches to a node before a pod can be bound.
const (
	isAttached = "example.com/attached"
	isBroken   = "example.com/broken"
)

// publish makes a driver publish the devices of a node, which are a pool. If attached, pods are
// bound only once the driver has attached their devices to the node.
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

// attach lets the driver attach the devices of a claim that need it, unless it already does. While
// things go wrong, it may fail.
func (w *World) attach(claim *resourcev1.ResourceClaim) {
	attaching := w.cluster.attaching
	if !awaitsDriver(claim) || attaching[claim.UID] {
		return
	}
	attaching[claim.UID] = true
	delay := time.Duration(w.kubelets.Int64N(int64(maxAttaching)))
	condition := metav1.Condition{Type: isAttached, Status: metav1.ConditionTrue, Reason: "Attached"}
	if w.kubelets.IntN(4) == 0 && time.Now().Before(w.troubled) {
		condition.Type, condition.Reason = isBroken, "Failed"
	}
	w.after(delay, func() {
		delete(attaching, claim.UID)
		now := w.claim(claim.Namespace, claim.Name)
		switch {
		case now == nil || now.UID != claim.UID || !awaitsDriver(now):
		case slices.Equal(devicesOf(now), devicesOf(claim)):
			w.writeDevices(now.DeepCopy(), condition)
		default:
			w.attach(now)
		}
	})
}

// writeDevices writes a condition of the devices of a claim.
func (w *World) writeDevices(claim *resourcev1.ResourceClaim, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.Now()
	claim.Status.Devices = nil
	for _, result := range claim.Status.Allocation.Devices.Results {
		claim.Status.Devices = append(claim.Status.Devices, resourcev1.AllocatedDeviceStatus{Driver: result.Driver,
			Pool: result.Pool, Device: result.Device, Conditions: []metav1.Condition{condition}})
	}
	w.log.add("the driver says that the devices of claim %s are %s", claim.Name, condition.Type)
	w.counts["devices "+condition.Reason]++
	w.must(w.cluster.objects.Status().Update(w.ctx, claim))
	if condition.Type == isAttached {
		return
	}
	for _, pod := range sorted(w.cluster.pods) { // those of groups are not bound with the others
		if slices.ContainsFunc(claim.Status.ReservedFor,
			func(c resourcev1.ResourceClaimConsumerReference) bool { return c.UID == pod.UID }) {
			w.cluster.gangs.disturb(groupOf(pod))
		}
	}
}

// awaitsDriver reports whether the driver has not said of all devices of a claim what became of
// them.
func awaitsDriver(claim *resourcev1.ResourceClaim) bool {
	return hasDevices(claim, isAttached, isBroken)
}

// areAttached reports whether the devices of a claim that need it are attached.
func areAttached(claim *resourcev1.ResourceClaim) bool { return !hasDevices(claim, isAttached) }

// hasDevices reports whether a claim has devices that must be attached, and of which none of some
// conditions is true.
func hasDevices(claim *resourcev1.ResourceClaim, without ...string) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	return slices.ContainsFunc(claim.Status.Allocation.Devices.Results,
		func(result resourcev1.DeviceRequestAllocationResult) bool {
			i := slices.IndexFunc(claim.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
				return d.Driver == result.Driver && d.Pool == result.Pool && d.Device == result.Device
			})
			has := i >= 0 && slices.ContainsFunc(without, func(condition string) bool {
				return apimeta.IsStatusConditionTrue(claim.Status.Devices[i].Conditions, condition)
			})
			return len(result.BindingConditions) > 0 && !has
		})
}
