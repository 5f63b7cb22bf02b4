// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"reflect"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	csitrans "k8s.io/csi-translation-lib"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// Most pods with claims are simple cases for VolumeBinding, VolumeZone and NodeVolumeLimits
// (CSILimits). If a claim is bound, the node must match the node affinity and the zone labels of
// the volume. If the volume is yet to be provisioned, the node must match the topologies that the
// class allows, and the driver must have room for it, if it reports how much it has. And the limits
// of the node are far away, or it has none. Running these plugins costs some microseconds for each
// node, and their answers are known in advance. So claims answers for them, exactly, where it can.
// The plugins are run on the other nodes, and on the chosen one.
//
// The counterparts are volumebinding/binder.go, volumezone/volume_zone.go and
// nodevolumelimits/csi.go of kube-scheduler 1.37.

// volumeStores holds the stores in which a Plan looks up volumes: the stores of the informers that
// the plugins have requested.
type volumeStores struct {
	claims, classes, csiNodes, csiDrivers toolscache.Store
	volumes, attachments                  toolscache.Indexer
	// capacities has CapacityIndexers.
	capacities toolscache.Indexer
	// changes lists the changes of csiNodes, attachments and capacities.
	changes *VolumeChanges
	// zones is true if the profile has VolumeZone.
	zones bool
}

// attachmentsByNode is the name of the index that NodeVolumeLimits adds to the informer of
// VolumeAttachments (nodevolumelimits/csi.go).
const attachmentsByNode = "va.spec.nodename"

func newVolumeStores(factory informers.SharedInformerFactory, changes *VolumeChanges) *volumeStores {
	core, objects := factory.Core().V1(), factory.Storage().V1()
	// An error means that the index exists, or VolumesFor fails.
	_ = core.PersistentVolumes().Informer().AddIndexers(VolumeIndexers)
	capacities := objects.CSIStorageCapacities().Informer()
	_ = capacities.AddIndexers(CapacityIndexers) // the same
	return &volumeStores{
		claims:  core.PersistentVolumeClaims().Informer().GetStore(),
		volumes: core.PersistentVolumes().Informer().GetIndexer(),
		classes: objects.StorageClasses().Informer().GetStore(), csiNodes: objects.CSINodes().Informer().GetStore(),
		csiDrivers: objects.CSIDrivers().Informer().GetStore(), attachments: objects.VolumeAttachments().Informer().
				GetIndexer(),
		capacities: capacities.GetIndexer(),
		changes:    changes,
	}
}

// get returns an object of a store, or nil if it does not exist.
func get[T any](store toolscache.Store, key string) *T {
	object, _, _ := store.GetByKey(key)
	t, _ := object.(*T)
	return t
}

// AnswersForClaims reports whether the profile has the plugins that the fast path can answer for
// about most claims.
func AnswersForClaims(filters []fwk.FilterPlugin) bool {
	binding, limits := false, false
	for _, pl := range filters {
		binding = binding || is[*volumebinding.VolumeBinding](pl)
		limits = limits || is[*nodevolumelimits.CSILimits](pl)
	}
	return binding && limits
}

// readsZones reports whether the profile has VolumeZone.
func readsZones(filters []fwk.FilterPlugin) bool {
	return slices.ContainsFunc(filters, func(pl fwk.FilterPlugin) bool { return is[*volumezone.VolumeZone](pl) })
}

// claims holds the requirements of one pod's claims on a node.
type claims struct {
	stores   *volumeStores
	snapshot *cache.Snapshot
	// rules are the conditions on the labels of the node that other volumes are likely to share.
	// The rows of the pod's class take them into account.
	rules volumeRules
	// affinities are the other conditions. migrating are those of in-tree volumes that depend on
	// whether the node mounts them by a CSI driver. nodes are the nodes for which volumes are being
	// provisioned.
	affinities []volumeAffinity
	migrating  []migratingAffinity
	nodes      []string
	// static are the claims that may be bound to free volumes.
	static []staticClaim
	// reporting are the claims whose drivers report their capacity, and demands what they request.
	reporting []capacityClaim
	demands   []classDemand
	// drivers are those that must be on the node (preventPodSchedulingIfMissing of a CSIDriver).
	drivers []string
	// volumes is the number of claims.
	volumes int
}

// migratingAffinity is the node affinity of a volume of an in-tree plugin. by applies on nodes that
// mount the plugin's volumes by a CSI driver. nil: the volume can be mounted on every node.
type migratingAffinity struct {
	plugin        uint8 // its migratableBit
	otherwise, by *volumeAffinity
}

// read reads the claims of a pod, and reports whether they are all of the simple kind. What it
// finds counts if PreFilter of VolumeBinding accepts the claims.
func (c *claims) read(stores *volumeStores, snapshot *cache.Snapshot, pod *corev1.Pod) bool {
	*c = claims{stores: stores, snapshot: snapshot, rules: volumeRules{c.rules.affinities[:0], c.rules.zones[:0]},
		affinities: c.affinities[:0], migrating: c.migrating[:0], nodes: c.nodes[:0], static: c.static[:0],
		reporting: c.reporting[:0], demands: c.demands[:0], drivers: c.drivers[:0]}
	for i := range pod.Spec.Volumes {
		source := &pod.Spec.Volumes[i].VolumeSource
		name, zones := "", false
		switch {
		case source.PersistentVolumeClaim != nil:
			name, zones = source.PersistentVolumeClaim.ClaimName, stores.zones
		case source.Ephemeral != nil: // VolumeZone passes over such claims
			name = ephemeral.VolumeClaimName(pod, &pod.Spec.Volumes[i])
		case podfields.OrdinaryVolume(source):
			continue
		default:
			return false
		}
		claim := get[corev1.PersistentVolumeClaim](stores.claims, pod.Namespace+"/"+name)
		if claim == nil || !c.add(claim, zones) {
			return false
		}
		c.volumes++
	}
	return c.volumes > 0
}

// add adds a claim. zones is true if VolumeZone reads the labels of its volume.
func (c *claims) add(claim *corev1.PersistentVolumeClaim, zones bool) bool {
	if claim.Spec.VolumeName == "" {
		return c.addUnbound(claim)
	}
	if !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
		return false
	}
	bound := get[corev1.PersistentVolume](c.stores.volumes, claim.Spec.VolumeName)
	if bound == nil {
		return false
	}
	if zones {
		c.rules.zones = appendZoneRules(c.rules.zones, bound)
	}
	if bound.Spec.CSI != nil {
		c.addDriver(bound.Spec.CSI.Driver)
	} else if translator.IsPVMigratable(bound) {
		return c.addInTree(bound)
	}
	affinity, ok := affinityOf(bound)
	if ok && affinity != nil {
		c.require(*affinity)
	}
	return ok
}

// affinityOf returns the node affinity of a volume, nil if it has none.
func affinityOf(pv *corev1.PersistentVolume) (*volumeAffinity, bool) {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil, true
	}
	affinity, ok := newVolumeAffinity(pv.Spec.NodeAffinity.Required)
	return &affinity, ok
}

// require adds a condition on the labels of the node.
func (c *claims) require(affinity volumeAffinity) {
	if affinity.shared(c.snapshot) {
		c.rules.affinities = append(c.rules.affinities, affinity)
	} else {
		c.affinities = append(c.affinities, affinity)
	}
}

// addInTree adds a bound volume of an in-tree plugin. On nodes that mount such volumes by a CSI
// driver, VolumeBinding reads the volume as it is translated. NodeVolumeLimits counts it on all
// nodes.
func (c *claims) addInTree(bound *corev1.PersistentVolume) bool {
	affinity, ok := affinityOf(bound)
	name, err := translator.GetInTreePluginNameFromSpec(bound, nil)
	if !ok || err != nil {
		return false
	}
	plugin := migratableBit(name)
	if plugin == 0 {
		if affinity != nil {
			c.require(*affinity)
		}
		return true
	}
	translated, err := translator.TranslateInTreePVToCSI(logr.Discard(), bound)
	if err != nil {
		return false
	}
	by, ok := affinityOf(translated)
	if !ok {
		return false
	}
	c.addDriver(name)
	switch {
	case affinity == nil && by == nil:
	case affinity != nil && by != nil && reflect.DeepEqual(affinity.terms, by.terms):
		c.require(*affinity)
	default:
		c.migrating = append(c.migrating, migratingAffinity{plugin: plugin, otherwise: affinity, by: by})
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
