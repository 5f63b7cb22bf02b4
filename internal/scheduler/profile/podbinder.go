// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"iter"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
)

// podBinder is upstream's binder for which the volumes of a storage class are only those that the
// claims of the pod may be bound to (see fastpath.VolumesFor). The binder lists all volumes of the
// class otherwise, also those of other claims, for each pod with a claim that is yet to be bound.
type podBinder struct {
	volumebinding.SchedulerVolumeBinder
	claims  corelisters.PersistentVolumeClaimLister
	volumes *podVolumes
}

// GetPodVolumeClaims implements SchedulerVolumeBinder.
func (b *podBinder) GetPodVolumeClaims(logger klog.Logger, pod *corev1.Pod) (*volumebinding.PodVolumeClaims, error) {
	b.volumes.mu.Lock()
	defer b.volumes.mu.Unlock()
	b.volumes.claims = b.unbound(pod, b.volumes.claims[:0])
	b.volumes.only = true
	defer func() { b.volumes.only = false }()
	return b.SchedulerVolumeBinder.GetPodVolumeClaims(logger, pod)
}

// unbound appends the claims of the pod that have no volume.
func (b *podBinder) unbound(pod *corev1.Pod, to []types.UID) []types.UID {
	for name := range claimNames(pod) {
		if claim, err := b.claims.PersistentVolumeClaims(pod.Namespace).Get(name); err == nil &&
			claim.Spec.VolumeName == "" {
			to = append(to, claim.UID)
		}
	}
	return to
}

// claimNames returns the names of the claims that are volumes of the pod.
func claimNames(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range pod.Spec.Volumes {
			v, name := &pod.Spec.Volumes[i], ""
			switch {
			case v.PersistentVolumeClaim != nil:
				name = v.PersistentVolumeClaim.ClaimName
			case v.Ephemeral != nil:
				name = ephemeral.VolumeClaimName(pod, v)
			default:
				continue
			}
			if !yield(name) {
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
	// mu is held while the binder reads the claims of a pod. only is true then. claims are the
	// pod's claims without a volume.
	mu     sync.Mutex
	only   bool
	claims []types.UID
}

// newPodVolumes adds the index that it needs to the informer.
func newPodVolumes(informer coreinformers.PersistentVolumeInformer, changes *claimChanges) (*podVolumes, error) {
	if err := informer.Informer().AddIndexers(fastpath.VolumeIndexers); err != nil {
		return nil, err
	}
	return &podVolumes{PersistentVolumeInformer: informer, changes: changes}, nil
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
	return fastpath.VolumesFor(i.Indexer, value, i.of.claims...)
}
