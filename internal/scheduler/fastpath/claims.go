// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/volume"
	csitrans "k8s.io/csi-translation-lib"
	fwk "k8s.io/kube-scheduler/framework"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// Most pods with claims are simple cases for VolumeBinding and NodeVolumeLimits (CSILimits). If a
// claim is bound, the node must match the node affinity of the volume. If the volume is yet to be
// provisioned, the node must match the topologies that the class allows. And the limits of the node
// are far away, or it has none. Running these two plugins costs some microseconds for each node,
// and their answers are known in advance. So claims answers for them, exactly, where it can. The
// plugins are run on the other nodes, and on the chosen one.
//
// The counterparts are volumebinding/binder.go and nodevolumelimits/csi.go of kube-scheduler 1.37.

// volumeStores holds the stores in which a Plan looks up volumes: the stores of the informers that
// the two plugins have requested.
type volumeStores struct {
	claims, classes, csiNodes, csiDrivers toolscache.Store
	volumes, attachments                  toolscache.Indexer
}

// Names of the indices that the plugins add to the informers.
const (
	volumesByClass    = "storageclass"     // volumebinding/assume_cache.go
	attachmentsByNode = "va.spec.nodename" // nodevolumelimits/csi.go
)

func newVolumeStores(factory informers.SharedInformerFactory) *volumeStores {
	core, objects := factory.Core().V1(), factory.Storage().V1()
	return &volumeStores{
		claims:  core.PersistentVolumeClaims().Informer().GetStore(),
		volumes: core.PersistentVolumes().Informer().GetIndexer(),
		classes: objects.StorageClasses().Informer().GetStore(), csiNodes: objects.CSINodes().Informer().GetStore(),
		csiDrivers: objects.CSIDrivers().Informer().GetStore(), attachments: objects.VolumeAttachments().Informer().
				GetIndexer(),
	}
}

// get returns an object of a store, or nil if it does not exist.
func get[T any](store toolscache.Store, key string) *T {
	object, _, _ := store.GetByKey(key)
	t, _ := object.(*T)
	return t
}

// answersForClaims reports whether the profile has the plugins that claims can answer for.
func answersForClaims(filters []fwk.FilterPlugin) bool {
	binding, limits := false, false
	for _, pl := range filters {
		binding = binding || is[*volumebinding.VolumeBinding](pl)
		limits = limits || is[*nodevolumelimits.CSILimits](pl)
	}
	return binding && limits
}

// claims holds the requirements of one pod's claims on a node.
type claims struct {
	stores *volumeStores
	// affinities are the node affinities of the volumes that are bound. topologies are allowed by
	// the storage classes from which the other volumes will be provisioned.
	affinities []volumeAffinity
	topologies [][]corev1.TopologySelectorTerm
	// drivers are those that must be on the node (preventPodSchedulingIfMissing of a CSIDriver).
	drivers []string
	// volumes is the number of claims.
	volumes int
}

// read reads the claims of a pod that PreFilter of VolumeBinding has accepted, and reports whether
// they are all of the simple kind.
func (c *claims) read(snapshot *cache.Snapshot, pod *corev1.Pod) bool {
	c.affinities, c.topologies, c.drivers, c.volumes = c.affinities[:0], c.topologies[:0], c.drivers[:0], 0
	for i := range pod.Spec.Volumes {
		source := &pod.Spec.Volumes[i].VolumeSource
		switch {
		case source.PersistentVolumeClaim != nil:
			claim := get[corev1.PersistentVolumeClaim](c.stores.claims, pod.Namespace+"/"+
				source.PersistentVolumeClaim.ClaimName)
			if claim == nil || !c.add(snapshot, claim) {
				return false
			}
			c.volumes++
		case !podfields.OrdinaryVolume(source):
			return false
		}
	}
	return c.volumes > 0
}

func (c *claims) add(snapshot *cache.Snapshot, claim *corev1.PersistentVolumeClaim) bool {
	if claim.Spec.VolumeName == "" {
		return c.addUnbound(snapshot, claim)
	}
	if !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
		return false
	}
	bound := get[corev1.PersistentVolume](c.stores.volumes, claim.Spec.VolumeName)
	if bound == nil || mayBeTranslated(bound) {
		return false
	}
	if bound.Spec.CSI != nil {
		c.addDriver(bound.Spec.CSI.Driver)
	}
	if bound.Spec.NodeAffinity == nil || bound.Spec.NodeAffinity.Required == nil {
		return true
	}
	affinity, ok := newVolumeAffinity(bound.Spec.NodeAffinity.Required)
	c.affinities = append(c.affinities, affinity)
	return ok
}

// mayBeTranslated reports whether a volume may be of a kind that is translated to CSI, which can
// change its node affinity.
func mayBeTranslated(pv *corev1.PersistentVolume) bool {
	source := &pv.Spec.PersistentVolumeSource
	return source.CSI == nil && source.Local == nil && source.NFS == nil && source.HostPath == nil
}

// addUnbound adds a claim whose volume will be provisioned once the pod has a node, by a driver
// that does not report its capacity. No other pod uses the claim, so nothing has been reserved for
// it yet, and no existing volume can be bound to it.
func (c *claims) addUnbound(snapshot *cache.Snapshot, claim *corev1.PersistentVolumeClaim) bool {
	if metav1.HasAnnotation(claim.ObjectMeta, volume.AnnSelectedNode) ||
		snapshot.IsPVCUsedByPods(claim.Namespace+"/"+claim.Name) {
		return false
	}
	class := get[storagev1.StorageClass](c.stores.classes, volume.GetPersistentVolumeClaimClass(claim))
	if class == nil || class.Provisioner == "" || class.Provisioner == volume.NotSupportedProvisioner {
		return false
	}
	if driver := get[storagev1.CSIDriver](c.stores.csiDrivers, class.Provisioner); driver != nil &&
		driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity {
		return false
	}
	others, err := c.stores.volumes.ByIndex(volumesByClass, class.Name)
	if err != nil || claim.Spec.VolumeAttributesClassName != nil || claim.Spec.Selector != nil {
		return false
	}
	for _, object := range others {
		other, ok := object.(*corev1.PersistentVolume)
		if !ok || other.Spec.ClaimRef == nil || volume.IsVolumeBoundToClaim(other, claim) {
			return false
		}
	}
	c.addDriver(class.Provisioner)
	if len(class.AllowedTopologies) > 0 {
		c.topologies = append(c.topologies, class.AllowedTopologies)
	}
	return true
}

// translator knows the drivers of in-tree volumes.
var translator = csitrans.New()

// addDriver adds the driver of a claim, if NodeVolumeLimits refuses nodes without it. name may be
// that of an in-tree provisioner.
func (c *claims) addDriver(name string) {
	if translator.IsMigratableIntreePluginByName(name) { // the error for other names would cost more
		name, _ = translator.GetCSINameFromInTreeName(name)
	}
	if driver := get[storagev1.CSIDriver](c.stores.csiDrivers, name); driver != nil &&
		ptr.Deref(driver.Spec.PreventPodSchedulingIfMissing, false) {
		c.drivers = append(c.drivers, name)
	}
}

// volumeAffinity is the node affinity of a volume.
type volumeAffinity struct {
	terms []corev1.NodeSelectorTerm
	// selector is nil if the terms only require that labels have one of some values, as for zones
	// and for volumes on one node. match compares these values itself, which is ten times as fast.
	selector *nodeaffinity.LazyErrorNodeSelector
}

// newVolumeAffinity returns false if the affinity uses more than labels. The plugin uses labels
// only.
func newVolumeAffinity(of *corev1.NodeSelector) (volumeAffinity, bool) {
	a := volumeAffinity{terms: of.NodeSelectorTerms}
	plain := true
	for i := range a.terms {
		if len(a.terms[i].MatchFields) > 0 {
			return a, false
		}
		plain = plain && len(a.terms[i].MatchExpressions) > 0
		for j := range a.terms[i].MatchExpressions {
			plain = plain && a.terms[i].MatchExpressions[j].Operator == corev1.NodeSelectorOpIn
		}
	}
	if !plain {
		a.selector = nodeaffinity.NewLazyErrorNodeSelector(of)
	}
	return a, true
}

func (a *volumeAffinity) match(node *corev1.Node) bool {
	if a.selector != nil {
		ok, err := a.selector.Match(node)
		return ok && err == nil
	}
	for i := range a.terms {
		if hasValues(node.Labels, a.terms[i].MatchExpressions) {
			return true
		}
	}
	return false
}

// hasValues reports whether a set of labels has one of the values that each requirement lists.
func hasValues(of map[string]string, requirements []corev1.NodeSelectorRequirement) bool {
	for i := range requirements {
		value, ok := of[requirements[i].Key]
		if !ok || !slices.Contains(requirements[i].Values, value) {
			return false
		}
	}
	return true
}

// match reports whether the volumes can be mounted on a node, as VolumeBinding decides.
func (c *claims) match(node *corev1.Node) bool {
	for i := range c.affinities {
		if !c.affinities[i].match(node) {
			return false
		}
	}
	for _, terms := range c.topologies {
		if !v1helper.MatchTopologySelectorTerms(terms, labels.Set(node.Labels)) {
			return false
		}
	}
	return true
}

// withinLimits reports whether NodeVolumeLimits would accept the pod on a node on which inUse
// claims are in use. It returns false if in doubt, such as without the feature gate
// VolumeLimitScaling on a node that lacks a driver.
func (c *claims) withinLimits(node string, inUse int32) bool {
	csiNode := get[storagev1.CSINode](c.stores.csiNodes, node)
	if csiNode == nil {
		return len(c.drivers) == 0
	}
	for _, name := range c.drivers {
		if !slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name }) {
			return false
		}
	}
	limited, lowest := false, int64(0)
	for i := range csiNode.Spec.Drivers {
		if a := csiNode.Spec.Drivers[i].Allocatable; a != nil && a.Count != nil {
			if count := int64(*a.Count); !limited || count < lowest {
				limited, lowest = true, count
			}
		}
	}
	if !limited {
		return true
	}
	if inUse < 0 || int64(inUse)+int64(c.volumes) > lowest {
		return false
	}
	attached, err := c.stores.attachments.ByIndex(attachmentsByNode, node)
	return err == nil && int64(inUse)+int64(len(attached))+int64(c.volumes) <= lowest
}

// claimTable counts by slot the volumes of claims that the pods on the node use. A volume that two
// pods use counts twice. The count is -1 if there are other volumes that NodeVolumeLimits may
// count. The table is updated through the change log when it is needed.
type claimTable struct {
	pos   uint64
	inUse []int32
}

func (t *claimTable) sync(snapshot *cache.Snapshot) {
	t.inUse = fitted(t.inUse, snapshot.Slots(), 0)
	t.pos = catchUp(snapshot, t.pos, t.read)
}

func (t *claimTable) read(snapshot *cache.Snapshot, slot cache.Slot) {
	t.inUse[slot] = 0
	info := snapshot.Info(slot)
	if info == nil {
		return
	}
	for _, pod := range info.Pods {
		volumes := pod.GetPod().Spec.Volumes
		for i := range volumes {
			switch source := &volumes[i].VolumeSource; {
			case source.PersistentVolumeClaim != nil:
				t.inUse[slot]++
			case !podfields.OrdinaryVolume(source):
				t.inUse[slot] = -1
				return
			}
		}
	}
}

// claimCheck answers for VolumeBinding and NodeVolumeLimits about the claims of one pod at a time.
// Decisions reuse its memory one after the other.
type claimCheck struct {
	claims
	inUse claimTable
	// accepted are the nodes that the two plugins are known to accept.
	accepted slotSet
}

// read reads the claims of a pod, and reports whether they are of the simple kind.
func (c *claimCheck) read(stores *volumeStores, snapshot *cache.Snapshot, pod *corev1.Pod) bool {
	c.stores = stores
	return c.claims.read(snapshot, pod)
}

// judge returns the nodes that VolumeBinding is not known to refuse, and the number of those on
// which the two plugins must be run. The plugins accept the others.
func (c *claimCheck) judge(snapshot *cache.Snapshot, nodes []cache.Slot) (kept []cache.Slot, unknown int) {
	c.inUse.sync(snapshot)
	c.accepted.reset(snapshot.Slots())
	kept = nodes[:0]
	for _, slot := range nodes {
		node := snapshot.Info(slot).Node()
		if !c.match(node) {
			continue
		}
		kept = append(kept, slot)
		if c.withinLimits(node.Name, c.inUse.inUse[slot]) {
			c.accepted.add(slot)
		} else {
			unknown++
		}
	}
	return kept, unknown
}
