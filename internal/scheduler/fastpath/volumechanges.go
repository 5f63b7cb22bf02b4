// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"sync"

	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/livesched/livesched/internal/scheduler/changelog"
)

// maxVolumeChanges is the number of changes that a reader of VolumeChanges may be behind.
const maxVolumeChanges = 1 << 15

// VolumeChanges lists the nodes whose CSINode or VolumeAttachments have changed, and the places
// (see CapacityIndexers) whose CSIStorageCapacities have, oldest first. It is the event handler of
// these kinds, for the whole process. Engines read it, each from its own positions, and look up the
// objects in the stores of the informers, which are at least as new.
//
// All methods are safe for concurrent use.
type VolumeChanges struct {
	mu            sync.Mutex // guards the logs, but not what since and placesSince have returned
	nodes, places changelog.Log[string]
}

var _ toolscache.ResourceEventHandler = (*VolumeChanges)(nil)

// NewVolumeChanges returns a VolumeChanges to be added to the informers of the three kinds.
func NewVolumeChanges() *VolumeChanges { return &VolumeChanges{} }

// OnAdd implements ResourceEventHandler.
func (v *VolumeChanges) OnAdd(object any, _ bool) { v.changed(object) }

// OnUpdate implements ResourceEventHandler. The spec of a VolumeAttachment does not change.
func (v *VolumeChanges) OnUpdate(before, after any) {
	if _, capacity := after.(*storagev1.CSIStorageCapacity); capacity {
		v.changed(before) // the place of an object with the same name that was deleted
		v.changed(after)
		return
	}
	was, is := nodeOf(before), nodeOf(after)
	if _, attachment := after.(*storagev1.VolumeAttachment); attachment && was == is {
		return
	}
	if was != is {
		v.add(was)
	}
	v.add(is)
}

// OnDelete implements ResourceEventHandler.
func (v *VolumeChanges) OnDelete(object any) {
	if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	v.changed(object)
}

func (v *VolumeChanges) changed(object any) {
	capacity, ok := object.(*storagev1.CSIStorageCapacity)
	if !ok {
		v.add(nodeOf(object))
		return
	}
	if capacity.NodeTopology == nil {
		return // no node can use it
	}
	place := capacityPlaceOf(capacity)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.places.AddShared(place, maxVolumeChanges)
}

// nodeOf returns the node that an object is about.
func nodeOf(object any) string {
	switch o := object.(type) {
	case *storagev1.CSINode:
		return o.Name
	case *storagev1.VolumeAttachment:
		return o.Spec.NodeName
	}
	return ""
}

func (v *VolumeChanges) add(node string) {
	if node == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.nodes.AddShared(node, maxVolumeChanges)
}

// since returns the entries from a position on, and the position after them. ok is false if some of
// them are gone. The entries remain valid.
func (v *VolumeChanges) since(pos uint64) (nodes []string, end uint64, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	nodes, ok = v.nodes.Since(pos)
	return nodes, v.nodes.End(), ok
}

// placesSince is since for the places.
func (v *VolumeChanges) placesSince(pos uint64) (places []string, end uint64, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	places, ok = v.places.Since(pos)
	return places, v.places.End(), ok
}
