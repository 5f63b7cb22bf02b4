// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Claims has the resource claims that plugins see; see devices.Managers.
type Claims interface {
	// ClaimsOf returns the claims of a pod, or false if one is not known.
	ClaimsOf(pod *corev1.Pod) ([]*resourcev1.ResourceClaim, bool)
	// AssumeClaim makes plugins see a claim as the API server has it, before informers do.
	AssumeClaim(claim *resourcev1.ResourceClaim) error
}

// reservedClaims returns the UIDs of the claims that are reserved for a pod, as plugins see them.
func (b *Binder) reservedClaims(pod *corev1.Pod) sets.Set[types.UID] {
	if b.Claims == nil || len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	reserved := sets.Set[types.UID]{}
	claims, _ := b.Claims.ClaimsOf(pod)
	for _, claim := range claims {
		if resourceclaim.IsReservedForPod(pod, claim, true) {
			reserved.Insert(claim.UID)
		}
	}
	return reserved
}

// checkDevices checks that the node of the pod can use the devices of the claims that are reserved
// for it after PreBind. Reserved claims keep their devices, but DynamicResources reserves a claim
// again after a conflict without a look at its devices: since the decision, the claim may have been
// released, and allocated on another node.
//
// The plugin writes nothing for claims that were reserved when the pod was decided about. If one is
// not any more, the pod must not be bound. Of those that were reserved just before PreBind, plugins
// may see an old version, since the answer got lost when they were released. So they are read.
func (b *Binder) checkDevices(ctx context.Context, c *Cycle, before sets.Set[types.UID]) error {
	pod, nodeName := c.Pod.Pod, c.NodeName
	if b.Claims == nil || len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	node, reserves := b.Cache.Node(nodeName), c.reservesClaims()
	claims, known := b.Claims.ClaimsOf(pod)
	if !known && reserves {
		return errClaimGone
	}
	for _, claim := range claims {
		switch {
		case resourceclaim.IsReservedForPod(pod, claim, true):
		case reserves:
			return notReserved(claim)
		default:
			continue
		}
		if before.Has(claim.UID) {
			var err error
			if claim, err = b.readReserved(ctx, pod, claim); err != nil {
				return err
			}
		}
		allocation := claim.Status.Allocation
		if allocation == nil || allocation.NodeSelector == nil {
			continue
		}
		if node == nil {
			return fmt.Errorf("node %s does not exist any more", nodeName)
		}
		selector, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector)
		if err != nil {
			return fmt.Errorf("the node selector of the devices of claim %s is invalid: %w", klog.KObj(claim), err)
		}
		if !selector.Match(node) {
			return fmt.Errorf("claim %s now has devices that node %s cannot use", klog.KObj(claim), nodeName)
		}
	}
	return nil
}

// readReserved reads a claim that plugins see as reserved for a pod. It returns an error if it is
// not.
func (b *Binder) readReserved(ctx context.Context, pod *corev1.Pod, seen *resourcev1.ResourceClaim) (
	*resourcev1.ResourceClaim, error) {
	now, err := b.Client.ResourceV1().ResourceClaims(seen.Namespace).Get(ctx, seen.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading claim %s: %w", klog.KObj(seen), err)
	}
	if now.UID == seen.UID && now.Status.Allocation != nil && resourceclaim.IsReservedForPod(pod, now, true) {
		return now, nil
	}
	b.assume(ctx, seen, now)
	return nil, notReserved(seen)
}

// errClaimGone is the error of a pod whose claim was deleted since the decision.
var errClaimGone = errors.New("a resource claim of the pod does not exist any more")

func notReserved(claim *resourcev1.ResourceClaim) error {
	return fmt.Errorf("claim %s is no longer reserved for the pod", klog.KObj(claim))
}

// reservesClaims reports whether a plugin has reserved all claims of the pod when PreBind succeeds.
func (c *Cycle) reservesClaims() bool {
	return slices.ContainsFunc(c.Framework.Plugins().PreBind,
		func(pl fwk.PreBindPlugin) bool { return pl.Name() == names.DynamicResources })
}

// assume makes plugins see a claim, unless they see a newer version than the one that they saw
// before the claim was read. If what was read is older than that, etcd was restored from a backup,
// and what plugins saw was lost, possibly before any informer had it: then they see what was read
// in its place. What they write with that version meets a conflict, and is written anew.
func (b *Binder) assume(ctx context.Context, seen, claim *resourcev1.ResourceClaim) {
	order, err := resourceversion.CompareResourceVersion(claim.ResourceVersion, seen.ResourceVersion)
	if err == nil && order < 0 && claim.UID == seen.UID {
		claim = claim.DeepCopy()
		claim.ResourceVersion = seen.ResourceVersion
	}
	if err := b.Claims.AssumeClaim(claim); err != nil {
		klog.FromContext(ctx).V(4).Info("Assuming a claim failed", "claim", klog.KObj(claim), "err", err)
	}
}

// readDevices makes plugins see which devices the claims of a pod have after an error, if they may
// see something else. Like verify, it tries until there is an answer, or ctx ends.
//
// The API server may have stored an allocation although the answer got lost. If plugins did not see
// it, Unreserve would make the devices free for the next pod. Until the claim is read, the
// allocation is pending, so nobody else gets the devices. Also, etcd may have lost an allocation
// before informers saw it. The API server then refuses each reservation of the claim.
func (b *Binder) readDevices(ctx context.Context, pod *corev1.Pod) {
	allocated := func(claim *resourcev1.ResourceClaim) bool { return claim.Status.Allocation != nil }
	b.readClaims(ctx, pod, func(seen *resourcev1.ResourceClaim) bool {
		return !allocated(seen) || !resourceclaim.IsReservedForPod(pod, seen, true)
	}, func(seen, now *resourcev1.ResourceClaim) bool { return allocated(now) != allocated(seen) })
}

// endReservations makes plugins see that claims are not reserved for a pod any more once Unreserve
// has removed the reservations. Otherwise PreBind of the next attempt could take them as reserved,
// and the pod would be bound without.
func (b *Binder) endReservations(ctx context.Context, pod *corev1.Pod) {
	reserved := func(claim *resourcev1.ResourceClaim) bool { return resourceclaim.IsReservedForPod(pod, claim, false) }
	b.readClaims(ctx, pod, reserved, func(_, now *resourcev1.ResourceClaim) bool { return !reserved(now) })
}

// readClaims reads the claims of a pod that may be outdated as plugins see them, and makes plugins
// see those that are news.
func (b *Binder) readClaims(ctx context.Context, pod *corev1.Pod, outdated func(seen *resourcev1.ResourceClaim) bool,
	news func(seen, now *resourcev1.ResourceClaim) bool) {
	if b.Claims == nil || len(pod.Spec.ResourceClaims) == 0 {
		return
	}
	claims, _ := b.Claims.ClaimsOf(pod)
	for _, claim := range claims {
		if !outdated(claim) {
			continue
		}
		read := func(ctx context.Context) (*resourcev1.ResourceClaim, error) {
			return b.Client.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
		}
		now, err := readUntilAnswered(ctx, klog.KObj(pod), read)
		if err != nil || now.UID != claim.UID || !news(claim, now) {
			continue
		}
		b.assume(ctx, claim, now)
	}
}
