// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/livesched/livesched/internal/informers"
)

// Fork returns managers whose assumed state is their own. They share with m what plugins only read:
// CSI nodes and resource slices. They read claims and classes from the scope, which must outlive
// them. Once it has synced, CopyAssumed adds what m assumes.
func (m *Managers) Fork(ctx context.Context, scope *informers.Scope) (*Managers, error) {
	f := &Managers{CSI: m.CSI}
	if m.DRA == nil {
		return f, nil
	}
	resources := scope.Resource().V1()
	f.slices, f.classes = m.slices, resources.DeviceClasses().Informer()
	f.claims = assumecache.NewAssumeCache(klog.FromContext(ctx), resources.ResourceClaims().Informer(), "ResourceClaim",
		"", nil)
	f.DRA = dynamicresources.NewDRAManager(ctx, f.claims, f.slices, scope)
	if classes, ok := f.DRA.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok && classes != nil {
		f.countClassChanges(classes)
		if _, err := f.classes.AddEventHandler(classes); err != nil {
			return nil, fmt.Errorf("listening to device classes: %w", err)
		}
	}
	return f, nil
}

// CopyAssumed assumes what other does: claims that the API server has confirmed but the informers
// do not show, and those that are to be allocated in binding cycles. What the informers of m show
// already is newer, so assuming it may fail, and need not succeed.
func (m *Managers) CopyAssumed(logger klog.Logger, other *Managers) {
	if m.DRA == nil {
		return
	}
	for _, obj := range other.claims.List(nil) {
		claim, ok := obj.(*resourcev1.ResourceClaim)
		if !ok {
			continue
		}
		key := claim.Namespace + "/" + claim.Name
		if stored, err := other.claims.GetAPIObj(key); err == nil && stored != obj {
			if err := m.claims.Assume(claim); err != nil {
				logger.V(4).Info("A resource claim is not assumed again", "claim", klog.KObj(claim), "err", err)
			}
		}
		if allocation := other.DRA.ResourceClaims().GetPendingAllocation(claim.UID); allocation != nil {
			pending := claim.DeepCopy()
			pending.Status.Allocation = allocation.DeepCopy()
			if err := m.DRA.ResourceClaims().SignalClaimPendingAllocation(claim.UID, pending); err != nil {
				logger.V(4).Info("A pending allocation is not copied", "claim", klog.KObj(claim), "err", err)
			}
		}
	}
}
