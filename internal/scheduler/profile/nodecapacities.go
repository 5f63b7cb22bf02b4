// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"sync"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
)

// nodeCapacities is the informer of CSIStorageCapacities for the binder of a podBinder. The binder
// uses its lister only, within FindPodVolumes: it lists all objects, and parses the selector of
// each, to find those of one node.
type nodeCapacities struct {
	storageinformers.CSIStorageCapacityInformer
	store toolscache.Indexer
	// mu is held while the binder looks at a node, for writing if it needs the capacity there. only
	// is true then, and the lister returns only what the node with these labels may use.
	mu     sync.RWMutex
	only   bool
	labels map[string]string
}

// newNodeCapacities adds the index that it needs to the informer.
func newNodeCapacities(informer storageinformers.CSIStorageCapacityInformer) (*nodeCapacities, error) {
	shared := informer.Informer()
	if err := shared.AddIndexers(fastpath.CapacityIndexers); err != nil {
		return nil, err
	}
	return &nodeCapacities{CSIStorageCapacityInformer: informer, store: shared.GetIndexer()}, nil
}

// see makes the lister return what the node with these labels may use while look is called, for one
// node at a time.
func (n *nodeCapacities) see(labels map[string]string, look func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.only, n.labels = true, labels
	defer func() { n.only, n.labels = false, nil }()
	look()
}

// seeAll makes the lister return all objects while look is called.
func (n *nodeCapacities) seeAll(look func()) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	look()
}

// Lister implements CSIStorageCapacityInformer.
func (n *nodeCapacities) Lister() storagelisters.CSIStorageCapacityLister {
	return nodeCapacityLister{n.CSIStorageCapacityInformer.Lister(), n}
}

type nodeCapacityLister struct {
	storagelisters.CSIStorageCapacityLister
	of *nodeCapacities
}

// List implements CSIStorageCapacityLister.
func (l nodeCapacityLister) List(selector labels.Selector) (all []*storagev1.CSIStorageCapacity, err error) {
	if !l.of.only || !selector.Empty() {
		return l.CSIStorageCapacityLister.List(selector)
	}
	objects, err := fastpath.CapacitiesFor(l.of.store, l.of.labels)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if capacity, ok := object.(*storagev1.CSIStorageCapacity); ok {
			all = append(all, capacity)
		}
	}
	return all, nil
}
