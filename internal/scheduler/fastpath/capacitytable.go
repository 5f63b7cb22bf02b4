// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// capacityTable holds which CSIStorageCapacities each node may use. Like volumeTable, it is brought
// up to date when it is needed: by the log of the snapshot for nodes, by VolumeChanges for the
// objects. After a change, it reads again the nodes that have changed and the places that have.
type capacityTable struct {
	stores *volumeStores
	// pos and read are the positions in the two logs.
	pos, read uint64
	// of is the node, by slot, whose labels were read.
	of []*metav1.ObjectMeta
	// columns has an element for each set of label keys that objects require.
	columns []capacityColumn
	// numbers are the numbers of the places that nodes are in, or were. objects are the objects by
	// that number, without those that have no capacity.
	numbers map[string]int32
	objects [][]placedCapacity
	// classes numbers the storage classes of objects.
	classes map[string]int32
}

// capacityColumn holds the places with the same keys.
type capacityColumn struct {
	keys string
	at   []int32 // by slot: the number of the place, -1 for none
}

// placedCapacity is a CSIStorageCapacity.
type placedCapacity struct {
	class int32
	// limit is the size of the largest volume. capacity, which counts for the score, is -1 if it is
	// not known.
	limit, capacity int64
	// also is what the object requires besides the place, nil if it is nothing.
	also labels.Selector
}

func (t *capacityTable) sync(stores *volumeStores, snapshot *cache.Snapshot) {
	// The end is read before the objects, so that the next call reads later changes.
	changed, end, known := stores.changes.placesSince(t.read)
	_, follows := snapshot.Log().Since(t.pos)
	if !known || !follows || t.stores.changes != stores.changes || len(t.objects) > t.most(snapshot) {
		*t = capacityTable{numbers: map[string]int32{}, classes: map[string]int32{}} // everything is read again
		for _, keys := range stores.capacities.ListIndexFuncValues(capacityByLabels) {
			t.columns = append(t.columns, capacityColumn{keys: keys})
		}
		changed = nil
	}
	t.stores = stores
	t.of = fitted(t.of, snapshot.Slots(), nil)
	for i := range t.columns {
		t.columns[i].at = fitted(t.columns[i].at, snapshot.Slots(), -1)
	}
	for _, place := range changed {
		if number, ok := t.numbers[place]; ok {
			t.objects[number] = t.readPlace(place)
		}
		t.addColumn(snapshot, place)
	}
	t.pos, t.read = catchUp(snapshot, t.pos, t.readNode), end
}

// most is the number of places from which on many have no node any more.
func (t *capacityTable) most(snapshot *cache.Snapshot) int {
	return 2*(snapshot.NumNodes()+1)*len(t.columns) + 1
}

// addColumn adds the column of a place if it does not exist.
func (t *capacityTable) addColumn(snapshot *cache.Snapshot, place string) {
	keys, _, _ := strings.Cut(place, placeSeparator)
	for i := range t.columns {
		if t.columns[i].keys == keys {
			return
		}
	}
	column := capacityColumn{keys: keys, at: make([]int32, snapshot.Slots())}
	for slot, node := range t.of {
		column.at[slot] = t.placeOf(keys, node)
	}
	t.columns = append(t.columns, column)
}

// readNode brings a slot up to date with the snapshot.
func (t *capacityTable) readNode(snapshot *cache.Snapshot, slot cache.Slot) {
	var node *metav1.ObjectMeta
	if info := snapshot.Info(slot); info != nil {
		node = &info.Node().ObjectMeta
	}
	if node == t.of[slot] {
		return
	}
	t.of[slot] = node
	for i := range t.columns {
		t.columns[i].at[slot] = t.placeOf(t.columns[i].keys, node)
	}
}

// placeOf returns the number of the place with some keys that a node (nil: none) is in, or -1.
func (t *capacityTable) placeOf(keys string, node *metav1.ObjectMeta) int32 {
	if node == nil {
		return -1
	}
	place, ok := placeIn(keys, node.Labels)
	if !ok {
		return -1
	}
	number, ok := t.numbers[place]
	if !ok {
		number = int32(len(t.objects))
		t.numbers[place] = number
		t.objects = append(t.objects, t.readPlace(place))
	}
	return number
}

// readPlace returns the objects of a place.
func (t *capacityTable) readPlace(place string) (all []placedCapacity) {
	objects, _ := t.stores.capacities.ByIndex(capacityByPlace, place)
	for _, object := range objects {
		if c, ok := object.(*storagev1.CSIStorageCapacity); ok {
			if placed, ok := newPlacedCapacity(c); ok {
				placed.class = t.classOf(c.StorageClassName)
				all = append(all, placed)
			}
		}
	}
	return all
}

// classOf returns the number of a storage class.
func (t *capacityTable) classOf(name string) int32 {
	number, ok := t.classes[name]
	if !ok {
		number = int32(len(t.classes))
		t.classes[name] = number
	}
	return number
}

// newPlacedCapacity returns the object without its class, or false if no volume can be created. The
// counterpart is hasEnoughCapacity in volumebinding/binder.go.
func newPlacedCapacity(of *storagev1.CSIStorageCapacity) (c placedCapacity, ok bool) {
	limit := of.MaximumVolumeSize
	if limit == nil {
		limit = of.Capacity
	}
	if limit == nil || of.NodeTopology == nil {
		return c, false
	}
	c = placedCapacity{limit: limit.Value(), capacity: -1}
	if of.Capacity != nil {
		c.capacity = of.Capacity.Value()
	}
	if len(of.NodeTopology.MatchExpressions) > 0 {
		selector, err := metav1.LabelSelectorAsSelector(of.NodeTopology)
		if err != nil {
			return c, false
		}
		c.also = selector
	}
	return c, true
}

// reported is what objects tell about a node and a claim.
type reported struct {
	// enough is true if the volume can be created. capacity is the capacity that the plugin reads
	// for the score, or -1 if it may be that of one object or another, or is not known.
	enough   bool
	capacity int64
}

// find returns what the objects of a storage class tell about a node and the size of a volume.
func (t *capacityTable) find(slot cache.Slot, class int32, size int64) (r reported) {
	for i := range t.columns {
		number := t.columns[i].at[slot]
		if number < 0 {
			continue
		}
		objects := t.objects[number]
		for j := range objects {
			o := &objects[j]
			if o.class != class || o.limit < size || o.also != nil && !o.also.Matches(labels.Set(t.of[slot].Labels)) {
				continue
			}
			if r.enough && r.capacity != o.capacity {
				r.capacity = -1
				continue
			}
			r = reported{enough: true, capacity: o.capacity}
		}
	}
	return r
}

// capacityClaim is a claim whose driver reports its capacity.
type capacityClaim struct {
	class string
	size  int64
	// number is that of the class in the capacityTable, once nodes are judged. of is the position
	// of the class in claims.demands.
	number int32
	of     int
}

// classDemand is what the claims of one storage class request together.
type classDemand struct {
	class     string
	requested int64
	capacity  int64 // of the node that is looked at
}

// reportsCapacity reports whether a driver reports its capacity.
func reportsCapacity(driver *storagev1.CSIDriver) bool {
	return driver != nil && ptr.Deref(driver.Spec.StorageCapacity, false)
}
