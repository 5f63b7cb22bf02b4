// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
)

// deviceClass is the name of the class of all devices, and of the template of claims for one.
const deviceClass = "gpu"

// deviceResources are the names by which pods can request one as a resource, too: an extended
// resource that the class has, and the name that any class has.
var deviceResources = []corev1.ResourceName{"example.com/device",
	corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + deviceClass)}

// changeDevices publishes or withdraws the devices of a node, as their driver does, or changes the
// claims that pods share.
func (w *World) changeDevices(r *rand.Rand) {
	if w.counts["actor: devices"] == 1 {
		class := objects.DeviceClass(deviceClass)
		class.Spec.ExtendedResourceName = ptr.To(string(deviceResources[0]))
		w.must(w.cluster.objects.Create(w.ctx, class))
	}
	switch kind := r.IntN(8); kind {
	case 0:
		w.shareClaim(r)
	case 1:
		if claims := sorted(w.cluster.claims); len(claims) > 0 {
			claim := one(r, claims)
			w.log.add("delete claim %s", claim.Name)
			w.must(w.cluster.objects.Delete(w.ctx, claim))
		}
	case 2, 3:
		if published := sorted(w.cluster.slices); len(published) > 0 {
			slice := one(r, published)
			w.log.add("withdraw %s", slice.Name)
			w.must(w.cluster.objects.Delete(w.ctx, slice))
		}
	default:
		for _, node := range sorted(w.cluster.nodes) {
			if r.IntN(2) == 0 {
				w.publish(node.Name, 1+r.IntN(3), r.IntN(4) == 0)
			}
		}
	}
}

// shareClaim creates a claim, unless it exists, and pods that use it.
func (w *World) shareClaim(r *rand.Rand) {
	claim := objects.DeviceClaim(fmt.Sprint("shared-", r.IntN(3)), deviceClass)
	w.log.add("share claim %s", claim.Name)
	if err := w.cluster.objects.Create(w.ctx, claim); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
	for range 1 + r.IntN(3) {
		w.counts["sharing pods"]++
		pod := w.newPod(r)
		pod.Name = fmt.Sprintf("sharing-%d", w.counts["sharing pods"])
		objects.UsingDevices(claim.Name)(pod)
		w.must(w.cluster.objects.Create(w.ctx, pod))
	}
}

// useDevice makes a pod use a device of its own.
func useDevice(pod *corev1.Pod) {
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims,
		corev1.PodResourceClaim{Name: "own", ResourceClaimTemplateName: ptr.To(deviceClass)})
}

// requestDevice makes a pod request a device of its own as a resource. livesched makes the claim.
func requestDevice(r *rand.Rand, pod *corev1.Pod) {
	name, resources := one(r, deviceResources), &pod.Spec.Containers[0].Resources
	resources.Requests[name] = resource.MustParse("1")
	resources.Limits = corev1.ResourceList{name: resources.Requests[name]}
}

func requestsDevice(pod *corev1.Pod) bool {
	for name := range pod.Spec.Containers[0].Resources.Requests {
		if slices.Contains(deviceResources, name) {
			return true
		}
	}
	return false
}

func usesDevices(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || requestsDevice(pod)
}

// withoutDevices makes a pod use none.
func withoutDevices(pod *corev1.Pod) {
	pod.Spec.ResourceClaims = nil
	resources := &pod.Spec.Containers[0].Resources
	for _, name := range deviceResources {
		delete(resources.Requests, name)
		delete(resources.Limits, name)
	}
}

// claimNames returns the names of the claims of a pod that exist.
func claimNames(pod *corev1.Pod) (names []string) {
	for _, claim := range pod.Spec.ResourceClaims {
		if claim.ResourceClaimName != nil {
			names = append(names, *claim.ResourceClaimName)
		}
	}
	for _, claim := range pod.Status.ResourceClaimStatuses {
		names = append(names, ptr.Deref(claim.ResourceClaimName, ""))
	}
	return names
}

// allClaimNames returns those, and the name of the claim that livesched made for the pod last.
func allClaimNames(pod *corev1.Pod) []string {
	names := claimNames(pod)
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		names = append(names, extended.ResourceClaimName)
	}
	return names
}

// lacksClaim reports whether a claim of a pod does not exist, or is being deleted.
func (w *World) lacksClaim(pod *corev1.Pod) bool {
	names := claimNames(pod)
	return len(names) < len(pod.Spec.ResourceClaims) ||
		slices.ContainsFunc(names, func(name string) bool {
			claim := w.claim(pod.Namespace, name)
			return claim == nil || claim.DeletionTimestamp != nil
		})
}

const claimPrefix = "/registry/resourceclaims/"

func (w *World) claim(namespace, name string) *resourcev1.ResourceClaim {
	return w.cluster.claims[claimPrefix+namespace+"/"+name]
}

// podUsesClaims lets the controller of ResourceClaims see a change of a pod.
func (w *World) podUsesClaims(before, after *corev1.Pod) {
	switch {
	case after == nil:
		for _, name := range allClaimNames(before) {
			if claim := w.claim(before.Namespace, name); claim != nil {
				w.syncClaimLater(claim)
			}
		}
	case before == nil && len(after.Spec.ResourceClaims) > 0:
		w.after(w.kubeletDelay(), func() { w.makeClaims(after) })
	}
}

// makeClaims makes the claims of a pod from templates.
func (w *World) makeClaims(pod *corev1.Pod) {
	for _, reference := range pod.Spec.ResourceClaims {
		if reference.ResourceClaimTemplateName == nil {
			continue
		}
		claim := objects.DeviceClaim(pod.Name+"-own", deviceClass)
		claim.Namespace = pod.Namespace
		claim.Annotations = map[string]string{resourcev1.PodResourceClaimAnnotation: reference.Name}
		claim.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		w.must(w.cluster.objects.Create(w.ctx, claim))
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
			`{"metadata":{"uid":%q},"status":{"resourceClaimStatuses":[{"name":%q,"resourceClaimName":%q}]}}`,
			pod.UID, reference.Name, claim.Name))
		w.must(w.cluster.objects.Status().Patch(w.ctx, pod.DeepCopy(), patch))
	}
}

// claimChanged checks that no device is allocated twice, and lets the controller of ResourceClaims
// see the change.
func (w *World) claimChanged(before, after *resourcev1.ResourceClaim) {
	if after == nil {
		return
	}
	w.attach(after)
	switch {
	case after.Status.Allocation == nil:
	case before == nil || before.Status.Allocation == nil:
		w.counts["claims allocated"]++
		w.checkAllocation(after)
		w.cluster.allocatedAt[after.UID] = w.cluster.revision
	case len(after.Status.ReservedFor) == 0 && len(before.Status.ReservedFor) > 0:
		w.restoreIfAimed(aimBeforeAllocation, w.cluster.allocatedAt[after.UID]-1)
	}
	w.syncClaimLater(after)
}

func devicesOf(claim *resourcev1.ResourceClaim) (devices []string) {
	if claim.Status.Allocation == nil {
		return nil
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		devices = append(devices, result.Pool+"/"+result.Device)
	}
	return devices
}

// isUncertain reports whether a claim was just written without the knowledge of the leader.
func (w *World) isUncertain(claim *resourcev1.ResourceClaim) bool {
	path := "/apis/resource.k8s.io/v1/namespaces/" + claim.Namespace + "/resourceclaims/" + claim.Name + "/status"
	return time.Since(w.uncertain[path]) < lateness
}

// checkAllocation checks that nobody else has the devices of a claim. Nothing prevents that if an
// allocation is executed after its client has given up: then the world only counts these cases.
func (w *World) checkAllocation(claim *resourcev1.ResourceClaim) {
	own := devicesOf(claim)
	w.log.add("claim %s has %v", claim.Name, own)
	for _, other := range sorted(w.cluster.claims) {
		for _, device := range devicesOf(other) {
			if other.UID == claim.UID || !slices.Contains(own, device) {
				continue
			}
			w.counts["devices allocated twice"]++
			if !w.isUncertain(claim) && !w.isUncertain(other) && time.Since(w.restored) > lateness {
				w.fail("device %s was allocated to claim %s, and %s has it", device, claim.Name, other.Name)
			}
		}
	}
}

// checkClaims checks that the claims of a pod that was bound are allocated on its node, and
// reserved for it.
func (w *World) checkClaims(bound *corev1.Pod) {
	if time.Now().Before(w.excused) || w.wasBoundLate(bound) {
		return
	}
	names := allClaimNames(bound)
	if len(names) < len(bound.Spec.ResourceClaims) || len(names) == 0 && requestsDevice(bound) {
		w.fail("pod %s was bound, and lacks a claim", bound.Name)
	}
	for _, name := range names {
		claim := w.claim(bound.Namespace, name)
		if claim == nil || claim.Status.Allocation == nil {
			w.fail("pod %s was bound, and its claim %s has no devices", bound.Name, name)
			return
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.Pool != bound.Spec.NodeName {
				w.fail("pod %s was bound to %s, and claim %s has a device of %s", bound.Name, bound.Spec.NodeName, name,
					result.Pool)
			}
		}
		if !slices.ContainsFunc(claim.Status.ReservedFor,
			func(c resourcev1.ResourceClaimConsumerReference) bool { return c.UID == bound.UID }) {
			w.fail("pod %s was bound, and its claim %s is not reserved for it", bound.Name, name)
		}
		if !areAttached(claim) {
			w.fail("pod %s was bound, and the devices of claim %s are not attached: %+v", bound.Name, name,
				claim.Status.Devices)
		}
	}
}

// syncClaimLater lets the controller of ResourceClaims look at a claim.
func (w *World) syncClaimLater(claim *resourcev1.ResourceClaim) {
	key := client.ObjectKeyFromObject(claim)
	w.after(w.kubeletDelay(), func() {
		if now := w.claim(key.Namespace, key.Name); now != nil {
			w.syncClaim(now.DeepCopy())
		}
	})
}

// syncClaim releases a claim from pods that are gone, and then its devices, and deletes a claim
// whose pod is gone.
func (w *World) syncClaim(claim *resourcev1.ResourceClaim) {
	exists := map[types.UID]bool{}
	for _, pod := range w.cluster.pods {
		exists[pod.UID] = true
	}
	remaining := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor),
		func(c resourcev1.ResourceClaimConsumerReference) bool { return !exists[c.UID] })
	finalized := slices.Contains(claim.Finalizers, resourcev1.Finalizer)
	released := len(remaining) < len(claim.Status.ReservedFor)
	unused := len(remaining) == 0 && (released || claim.DeletionTimestamp != nil)
	if released || unused && claim.Status.Allocation != nil {
		claim.Status.ReservedFor = remaining
		if unused {
			claim.Status.Allocation, claim.Status.Devices = nil, nil
		}
		if err := w.cluster.objects.Status().Update(w.ctx, claim); err != nil {
			w.must(err)
			return // the claim has changed, which is seen
		}
	}
	if unused && finalized && claim.Status.Allocation == nil {
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers,
			func(name string) bool { return name == resourcev1.Finalizer })
		if err := w.cluster.objects.Update(w.ctx, claim); err != nil {
			w.must(err)
			return
		}
	}
	if owner := metav1.GetControllerOf(claim); owner != nil && !exists[owner.UID] && claim.DeletionTimestamp == nil {
		w.must(w.cluster.objects.Delete(w.ctx, claim))
	}
}
