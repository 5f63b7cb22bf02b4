// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"iter"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// podBinder is upstream's binder for which the volumes of a storage class are only those that the
// claims of the pod may be bound to, on the node that it looks at (see fastpath.VolumesOn), and the
// CSIStorageCapacities only those of this node (see fastpath.CapacitiesFor). The binder lists all
// volumes of the class otherwise, also those of other claims and nodes, for each pod with a claim
// that is yet to be bound, and looks at all of them and at all CSIStorageCapacities for each node.
type podBinder struct {
	volumebinding.SchedulerVolumeBinder
	claims     corelisters.PersistentVolumeClaimLister
	classes    storagelisters.StorageClassLister
	drivers    storagelisters.CSIDriverLister
	volumes    *podVolumes
	capacities *nodeCapacities
	assumed    *assumedVolumes
}

// newPodBinder returns a podBinder that tells changes of the claims that it hears of.
func newPodBinder(logger klog.Logger, client kubernetes.Interface, core coreinformers.Interface,
	storage storageinformers.Interface, changes *claimChanges,
	assumed *assumedVolumes) (*podBinder, error) {
	claims := toldClaims{core.PersistentVolumeClaims(), changes}
	volumes, err := newPodVolumes(core.PersistentVolumes(), changes)
	if err != nil {
		return nil, err
	}
	capacities, err := newNodeCapacities(storage.CSIStorageCapacities())
	if err != nil {
		return nil, err
	}
	binder, err := volumebinding.NewVolumeBinder(logger, client, features(), core.Pods(), core.Nodes(),
		storage.CSINodes(), claims, volumes, storage.StorageClasses(),
		volumebinding.CapacityCheck{CSIDriverInformer: storage.CSIDrivers(), CSIStorageCapacityInformer: capacities},
		binderTimeout)
	if err != nil {
		return nil, err
	}
	return &podBinder{binder, claims.Lister(), storage.StorageClasses().Lister(), storage.CSIDrivers().Lister(),
		volumes, capacities, assumed}, nil
}

// FindPodVolumes implements SchedulerVolumeBinder.
func (b *podBinder) FindPodVolumes(logger klog.Logger, pod *corev1.Pod, claims *volumebinding.PodVolumeClaims,
	node *corev1.Node) (found *volumebinding.PodVolumes, reasons volumebinding.ConflictReasons, err error) {
	if b.hasPlaced(pod) {
		if claims, err = b.claimsOn(logger, pod, node.Labels); err != nil {
			return nil, nil, err
		}
	}
	look := func() { found, reasons, err = b.SchedulerVolumeBinder.FindPodVolumes(logger, pod, claims, node) }
	if b.needsCapacity(pod) {
		b.capacities.see(node.Labels, look)
	} else {
		b.capacities.seeAll(look)
	}
	return found, reasons, err
}

// needsCapacity reports whether the driver of a claim that is yet to be bound reports its capacity.
// While that changes, the binder may list all objects.
func (b *podBinder) needsCapacity(pod *corev1.Pod) bool {
	for claim := range b.unboundClaims(pod) {
		class, err := b.classes.Get(volume.GetPersistentVolumeClaimClass(claim))
		if err != nil {
			continue
		}
		driver, err := b.drivers.Get(class.Provisioner)
		if err == nil && ptr.Deref(driver.Spec.StorageCapacity, false) {
			return true
		}
	}
	return false
}

// GetPodVolumeClaims implements SchedulerVolumeBinder. It leaves out placed volumes: FindPodVolumes
// adds those of the node.
func (b *podBinder) GetPodVolumeClaims(logger klog.Logger, pod *corev1.Pod) (*volumebinding.PodVolumeClaims, error) {
	return b.claimsWith(logger, pod, nil)
}

// claimsWith returns the claims of a pod with the volumes on a node with these labels.
func (b *podBinder) claimsWith(logger klog.Logger, pod *corev1.Pod, labels map[string]string) (
	*volumebinding.PodVolumeClaims, error) {
	b.volumes.mu.Lock()
	defer b.volumes.mu.Unlock()
	b.volumes.labels, b.volumes.claims, b.volumes.elsewhere = labels, b.volumes.claims[:0], false
	for claim := range b.unboundClaims(pod) {
		b.volumes.claims = append(b.volumes.claims, claim.UID)
		b.volumes.elsewhere = b.volumes.elsewhere || labels != nil && b.assumed.haveFor(claim.Namespace, claim.Name)
	}
	b.volumes.only = true
	defer func() { b.volumes.only, b.volumes.labels = false, nil }()
	return b.SchedulerVolumeBinder.GetPodVolumeClaims(logger, pod)
}

// hasPlaced reports whether there are placed volumes for a claim of the pod.
func (b *podBinder) hasPlaced(pod *corev1.Pod) bool {
	for claim := range b.unboundClaims(pod) {
		if fastpath.ArePlaced(b.volumes.store, volume.GetPersistentVolumeClaimClass(claim)) {
			return true
		}
	}
	return false
}

// errClaimsChange is for pods whose claims are being bound since PreFilter: the binder would pass
// over such a claim in Filter, because it relies on PreFilter to refuse the pod.
var errClaimsChange = errors.New("a claim of the pod is being bound")

// claimsOn is claimsWith after PreFilter has accepted the pod.
func (b *podBinder) claimsOn(logger klog.Logger, pod *corev1.Pod, labels map[string]string) (
	*volumebinding.PodVolumeClaims, error) {
	before, ok := b.settledClaims(pod)
	if !ok {
		return nil, errClaimsChange
	}
	claims, err := b.claimsWith(logger, pod, labels)
	if err != nil {
		return nil, err
	}
	if after, _ := b.settledClaims(pod); !slices.Equal(before, after) {
		return nil, errClaimsChange
	}
	return claims, nil
}

// settledClaims returns the claims of a pod, or false if one is about to be bound.
func (b *podBinder) settledClaims(pod *corev1.Pod) (all []*corev1.PersistentVolumeClaim, ok bool) {
	for claim := range b.claimsOf(pod) {
		all = append(all, claim)
		if claim.Spec.VolumeName != "" && !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
			return all, false
		}
	}
	return all, true
}

// unboundClaims are the claims of the pod that have no volume.
func (b *podBinder) unboundClaims(pod *corev1.Pod) iter.Seq[*corev1.PersistentVolumeClaim] {
	return func(yield func(*corev1.PersistentVolumeClaim) bool) {
		for claim := range b.claimsOf(pod) {
			if claim.Spec.VolumeName == "" && !yield(claim) {
				return
			}
		}
	}
}

// claimsOf are the claims of the pod that exist.
func (b *podBinder) claimsOf(pod *corev1.Pod) iter.Seq[*corev1.PersistentVolumeClaim] {
	return func(yield func(*corev1.PersistentVolumeClaim) bool) {
		for name := range podfields.VolumeClaimNames(pod) {
			if claim, err := b.claims.PersistentVolumeClaims(pod.Namespace).Get(name); err == nil && !yield(claim) {
				return
			}
		}
	}
}

// podVolumes is the informer of volumes for the binder of a podBinder. The binder reads its store
// only within GetPodVolumeClaims by an index.
type podVolumes struct {
	coreinformers.PersistentVolumeInformer
	changes *claimChanges
	store   toolscache.Indexer
	// mu is held while the binder reads the claims of a pod. only is true then. claims are the
	// pod's claims without a volume. labels are those of the node that it looks at, nil for none.
	// elsewhere means that a volume of another node may be assumed for one of these claims, which
	// other pods use, too. The store has it as free: only the binder knows, if it sees the volume.
	mu        sync.Mutex
	only      bool
	claims    []types.UID
	labels    map[string]string
	elsewhere bool
}

// newPodVolumes adds the index that it needs to the informer.
func newPodVolumes(informer coreinformers.PersistentVolumeInformer, changes *claimChanges) (*podVolumes, error) {
	shared := informer.Informer()
	if err := shared.AddIndexers(fastpath.VolumeIndexers); err != nil {
		return nil, err
	}
	return &podVolumes{PersistentVolumeInformer: informer, changes: changes, store: shared.GetIndexer()}, nil
}

// Informer implements PersistentVolumeInformer.
func (p *podVolumes) Informer() toolscache.SharedIndexInformer {
	return podVolumesInformer{toldInformer{p.PersistentVolumeInformer.Informer(), p.changes}, p}
}

type podVolumesInformer struct {
	toldInformer
	of *podVolumes
}

func (i podVolumesInformer) GetIndexer() toolscache.Indexer {
	return podVolumesIndexer{i.SharedIndexInformer.GetIndexer(), i.of}
}

type podVolumesIndexer struct {
	toolscache.Indexer
	of *podVolumes
}

// volumesByClass is the index of the binder (volumebinding/assume_cache.go).
const volumesByClass = "storageclass"

func (i podVolumesIndexer) ByIndex(name, value string) ([]any, error) {
	if name != volumesByClass || !i.of.only {
		return i.Indexer.ByIndex(name, value)
	}
	if i.of.elsewhere {
		return fastpath.VolumesFor(i.Indexer, value, i.of.claims...)
	}
	return fastpath.VolumesOn(i.Indexer, value, i.of.labels, i.of.claims...)
}
