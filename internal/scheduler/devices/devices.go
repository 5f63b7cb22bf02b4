// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package devices holds the managers of CSI nodes and of dynamic resources: one of each for the
// process, since they hold the assumed state for pods that are not bound yet.
package devices

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/livesched/livesched/internal/informers"
)

// Managers holds the managers that plugins share. They are safe for concurrent use.
type Managers struct {
	CSI fwk.CSIManager
	// DRA is nil (untyped) if dynamic resource allocation is off.
	DRA fwk.SharedDRAManager

	claims  *assumecache.AssumeCache
	tracked *tracker.Tracker
	classes toolscache.SharedIndexInformer
	// order has the handlers of the slice tracker.
	order inOrder
	// mayNarrow is true if Narrow can tell which devices matter for a node.
	mayNarrow bool
	*changeCounts
}

// changeCounts count changes that plugins see. Forks share them with the process.
type changeCounts struct {
	// classChanges counts the changes of device classes that plugins have seen.
	classChanges atomic.Uint64
	// began and ended count the changes of claims before and after they change which devices
	// plugins take for allocated.
	began, ended atomic.Uint64
}

// ClassChanges returns a number that grows with each change of a device class, once plugins see the
// change.
func (m *Managers) ClassChanges() uint64 { return m.classChanges.Load() }

// IsExtended reports whether a claim is for the extended resources of a pod. The scheduler creates
// such claims.
func IsExtended(claim *resourcev1.ResourceClaim) bool {
	return claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true"
}

// Backs reports whether devices of a class back a resource that pods request by its name.
func (m *Managers) Backs(name corev1.ResourceName) bool {
	return m.DRA != nil && m.DRA.DeviceClassResolver().GetDeviceClass(name) != nil
}

// ClaimChanges returns how many changes of claims have begun to change which devices plugins take
// for allocated, and how many have done so. While both stay the same, no event changes that.
func (m *Managers) ClaimChanges() (began, ended uint64) {
	ended = m.ended.Load()
	return m.began.Load(), ended
}

// ClaimsOf returns the claims of a pod, in the order of its spec, or false if one is not known.
func (m *Managers) ClaimsOf(pod *corev1.Pod) ([]*resourcev1.ResourceClaim, bool) {
	if m.DRA == nil || len(pod.Spec.ResourceClaims) == 0 {
		return nil, true
	}
	claims := make([]*resourcev1.ResourceClaim, 0, len(pod.Spec.ResourceClaims))
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name == nil {
			continue // the pod needs no claim in its place
		}
		if err != nil {
			return nil, false
		}
		claim, err := m.DRA.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return nil, false
		}
		claims = append(claims, claim)
	}
	return claims, true
}

// AssumeClaim makes plugins see a claim as the API server has it, before the informer does. It
// returns an error if the claim is gone, or plugins see a later version.
func (m *Managers) AssumeClaim(claim *resourcev1.ResourceClaim) error {
	if m.DRA == nil {
		return nil
	}
	return m.DRA.ResourceClaims().AssumeClaimAfterAPICall(claim)
}

// counting returns a handler that counts changes.
func counting(n *atomic.Uint64) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { n.Add(1) },
		UpdateFunc: func(any, any) { n.Add(1) },
		DeleteFunc: func(any) { n.Add(1) },
	}
}

// countClassChanges makes ClassChanges count what a cache of classes processes.
func (m *Managers) countClassChanges(classes *extendedresourcecache.ExtendedResourceCache) {
	classes.AddEventHandler(counting(&m.classChanges))
}

// NewManagers returns managers that read from the scope, which must outlive them.
func NewManagers(ctx context.Context, client clientset.Interface, scope *informers.Scope) (*Managers, error) {
	m := &Managers{CSI: nodevolumelimits.NewCSIManager(scope.Storage().V1().CSINodes().Lister()),
		changeCounts: &changeCounts{}}
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		return m, nil
	}
	resources := scope.Resource().V1()
	m.classes = resources.DeviceClasses().Informer()
	m.claims = assumecache.NewAssumeCache(klog.FromContext(ctx), restorable{resources.ResourceClaims().Informer()},
		"ResourceClaim", "", nil)
	options := tracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: consumesCapacity(),
		SliceInformer:            inOrderSlices{resources.ResourceSlices(), &m.order},
		KubeClient:               client,
	}
	if options.EnableDeviceTaintRules {
		options.TaintInformer = inOrderTaintRules{resources.DeviceTaintRules(), &m.order}
	}
	tracked, err := tracker.StartTracker(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("starting the resource slice tracker: %w", err)
	}
	m.tracked = tracked
	m.claims.AddEventHandler(counting(&m.began))
	narrow := &narrowable{SharedDRAManager: dynamicresources.NewDRAManager(ctx, m.claims, tracked, scope),
		index: newIndex(options.EnableConsumableCapacity), cache: m.claims}
	m.DRA = narrow
	m.claims.AddEventHandler(narrow.index.claimHandler())
	m.claims.AddEventHandler(narrow.arrivals.handler())
	m.claims.AddEventHandler(counting(&m.ended))
	return m, nil
}

// HasClaim reports whether plugins see this version of a claim, or a later one.
func (m *Managers) HasClaim(claim *metav1.ObjectMeta) bool {
	if m.DRA == nil {
		return true // no plugin reads claims
	}
	stored, err := m.claims.GetAPIObj(claim.Namespace + "/" + claim.Name)
	if err != nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(stored.(*resourcev1.ResourceClaim).ResourceVersion,
		claim.ResourceVersion)
	if err != nil || order < 0 {
		return false
	}
	waitForHandlers(m.claims)
	return true
}

// waitForHandlers waits until the handlers have been called for all that the cache has. One of them
// updates what is allocated. Any change of the cache, even of a claim that does not exist, returns
// only then.
func waitForHandlers(claims *assumecache.AssumeCache) { claims.Restore("") }

// AddEventHandlers adds a handler for the changes of each resource that the managers follow.
//
// The claims' assume cache, the slice tracker and the class cache call it after they have processed
// the change themselves. A handler on the informer itself could wake a pod before its plugin sees
// the change.
func (m *Managers) AddEventHandlers(handlerOf func(fwk.EventResource) toolscache.ResourceEventHandler) error {
	if m.DRA == nil {
		return nil
	}
	m.claims.AddEventHandler(handlerOf(fwk.ResourceClaim))
	slices := handlerOf(fwk.ResourceSlice)
	if n, ok := m.DRA.(*narrowable); ok {
		slices = n.index.sliceHandler(slices)
		// With node-allocatable resources, the plugin reads devices of other nodes, too. So does
		// Kubernetes' oldest allocator, which it uses without consumable capacity.
		m.mayNarrow = n.index.consumable &&
			!utilfeature.DefaultFeatureGate.Enabled(features.DRANodeAllocatableResources)
	}
	if err := m.listenToSlices(slices); err != nil {
		return fmt.Errorf("listening to resource slices: %w", err)
	}
	changes := handlerOf(fwk.DeviceClass)
	if classes, ok := m.DRA.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok {
		m.countClassChanges(classes)
		classes.AddEventHandler(changes)
		changes = classes
	} else {
		changes = informers.Around(changes, func(_ any, handle func()) {
			m.classChanges.Add(1)
			handle()
		})
	}
	if _, err := m.classes.AddEventHandler(changes); err != nil {
		return fmt.Errorf("listening to device classes: %w", err)
	}
	return nil
}

// listenToSlices adds a handler. The tracker calls it for the slices that there are, here or in the
// goroutine of an event.
func (m *Managers) listenToSlices(handler toolscache.ResourceEventHandler) error {
	m.order.mu.Lock()
	defer m.order.mu.Unlock()
	_, err := m.tracked.AddEventHandler(handler)
	return err
}
