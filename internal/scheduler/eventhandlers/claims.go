// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/framework"
)

// endingBindings returns a handler for ResourceClaims that ends binding cycles, and calls next.
// They are those of pods in PreBind, or at the barrier of their group, for which a claim is not
// reserved any more: it was released or deleted, or lost when etcd was restored from a backup.
// These pods must not be bound, and DynamicResources would wait for the binding conditions of
// devices that the claim does not have, until its timeout. The claims that it creates for extended
// resources are in no spec of a pod, but reserved like others.
func endingBindings(next toolscache.ResourceEventHandler,
	preBinding *framework.PodsInPreBind) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: next.OnAdd,
		UpdateFunc: func(before, after any) {
			endBindings(preBinding, before, after)
			next.OnUpdate(before, after)
		},
		DeleteFunc: func(before any) {
			endBindings(preBinding, before, nil)
			next.OnDelete(before)
		},
	}
}

// endBindings ends the binding cycles of pods that have lost the reservation of a claim. after is
// nil if the claim is gone. It may be an earlier version: then DynamicResources has withdrawn what
// it had assumed for a pod, and the informer has not shown a later version yet.
func endBindings(preBinding *framework.PodsInPreBind, before, after any) {
	claim, ok := before.(*resourcev1.ResourceClaim)
	if !ok {
		return
	}
	now, _ := after.(*resourcev1.ResourceClaim)
	for _, user := range claim.Status.ReservedFor {
		pod := preBinding.Get(user.UID) // nil for most: it is looked up first
		if pod == nil || now != nil && now.UID == claim.UID &&
			(slices.Contains(now.Status.ReservedFor, user) || devices.IsEarlier(now, claim)) {
			continue
		}
		pod.CancelPod(fmt.Sprintf("claim %s is no longer reserved for the pod", klog.KObj(claim)))
	}
}
