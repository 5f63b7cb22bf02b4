// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/livesched/livesched/internal/informers"
)

// shareDevices creates the managers of CSI nodes and of dynamic resources: one of each for the
// process, since they remember what was assumed for pods that are not bound yet.
//
// The claims' assume cache, the slice tracker and the class cache deliver their own cluster events,
// after they have taken the change in themselves; a handler on the bare informer could wake a pod
// before its plugin sees why.
func (s *Scheduler) shareDevices(ctx context.Context, scope *informers.Scope, sources *eventSources) error {
	// With the feature off there are none of these events, as in upstream.
	sources.permanent(fwk.ResourceClaim, fwk.ResourceSlice, fwk.DeviceClass)
	s.env.CSIManager = nodevolumelimits.NewCSIManager(scope.Storage().V1().CSINodes().Lister())
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		return nil
	}
	resources := scope.Resource().V1()
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), resources.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	options := tracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            resources.ResourceSlices(),
		KubeClient:               s.client,
	}
	if options.EnableDeviceTaintRules {
		options.TaintInformer = scope.Resource().V1beta2().DeviceTaintRules()
		options.ClassInformer = resources.DeviceClasses()
	}
	slices, err := tracker.StartTracker(ctx, options)
	if err != nil {
		return fmt.Errorf("starting the resource slice tracker: %w", err)
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, scope)
	s.env.DRAManager = manager

	claims.AddEventHandler(sources.handler(fwk.ResourceClaim))
	if _, err := slices.AddEventHandler(sources.handler(fwk.ResourceSlice)); err != nil {
		return fmt.Errorf("listening to resource slices: %w", err)
	}
	if classes, ok := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok {
		classes.AddEventHandler(sources.handler(fwk.DeviceClass))
		if _, err := resources.DeviceClasses().Informer().AddEventHandler(classes); err != nil {
			return fmt.Errorf("listening to device classes: %w", err)
		}
	} else if _, err := resources.DeviceClasses().Informer().AddEventHandler(sources.handler(fwk.DeviceClass)); err != nil {
		return fmt.Errorf("listening to device classes: %w", err)
	}
	return nil
}
