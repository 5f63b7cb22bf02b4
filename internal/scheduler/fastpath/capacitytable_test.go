// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// capacityScene has nodes, and objects that report capacity.
type capacityScene struct {
	*claimScene
	*rand.Rand
	cache *cache.Cache
	nodes map[string]*corev1.Node
}

func newCapacityScene(t *testing.T) *capacityScene {
	return &capacityScene{claimScene: newClaimScene(t), Rand: rand.New(rand.NewPCG(4, 4)), cache: cache.New(),
		nodes: map[string]*corev1.Node{}}
}

func (s *capacityScene) refresh() {
	s.Helper()
	if err := s.cache.UpdateSnapshot(logr.Discard(), s.snapshot); err != nil {
		s.Fatal(err)
	}
}

// setNode adds a node or replaces its labels; nil removes it.
func (s *capacityScene) setNode(name string, labels map[string]string) {
	s.Helper()
	before, exists := s.nodes[name]
	switch {
	case labels == nil && exists:
		delete(s.nodes, name)
		if err := s.cache.RemoveNode(logr.Discard(), before); err != nil {
			s.Fatal(err)
		}
		return
	case labels == nil:
		return
	}
	s.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if exists {
		s.cache.UpdateNode(logr.Discard(), before, s.nodes[name])
	} else {
		s.cache.AddNode(logr.Discard(), s.nodes[name])
	}
}

// put adds an object or replaces it, and tells of it.
func (s *capacityScene) put(capacity *storagev1.CSIStorageCapacity) {
	s.Helper()
	before, exists, _ := s.stores.capacities.Get(capacity)
	s.add(s.stores.capacities, capacity)
	if exists {
		s.stores.changes.OnUpdate(before, capacity)
	} else {
		s.stores.changes.OnAdd(capacity, false)
	}
}

func (s *capacityScene) remove(name string) {
	s.Helper()
	gone, exists, _ := s.stores.capacities.GetByKey(name)
	if !exists {
		return
	}
	if err := s.stores.capacities.Delete(gone); err != nil {
		s.Fatal(err)
	}
	s.stores.changes.OnDelete(gone)
}

func (s *capacityScene) randomLabels() map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"host", "zone", "disk"} {
		if s.IntN(4) > 0 {
			labels[key] = fmt.Sprint(s.IntN(4))
		}
	}
	return labels
}

func (s *capacityScene) randomTopology() *metav1.LabelSelector {
	topology := &metav1.LabelSelector{MatchLabels: s.randomLabels()}
	switch s.IntN(8) {
	case 0:
		return nil
	case 1:
		topology.MatchLabels = nil
	case 2, 3:
		topology.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "disk",
			Operator: []metav1.LabelSelectorOperator{"Exists", "DoesNotExist", "Near"}[s.IntN(3)]}}
	}
	return topology
}

func (s *capacityScene) randomCapacity(name string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: name},
		StorageClassName: fmt.Sprint(s.IntN(2)), NodeTopology: s.randomTopology()}
	if s.IntN(8) > 0 {
		c.Capacity = resource.NewQuantity(s.Int64N(5), resource.BinarySI)
	}
	if s.IntN(3) > 0 {
		c.MaximumVolumeSize = resource.NewQuantity(s.Int64N(5), resource.BinarySI)
	}
	return c
}

func (s *capacityScene) disturb() {
	switch name := fmt.Sprint(s.IntN(12)); s.IntN(10) {
	case 0:
		s.setNode(name, nil)
	case 1, 2, 3:
		s.setNode(name, s.randomLabels())
	case 4, 5:
		s.remove(name)
	case 6:
		if s.IntN(100) == 0 {
			for range 2*maxVolumeChanges + 1 { // more than the list keeps
				s.stores.changes.OnAdd(&storagev1.CSIStorageCapacity{NodeTopology: &metav1.LabelSelector{}}, false)
			}
		}
	default:
		s.put(s.randomCapacity(name))
	}
}

// sufficient returns the capacities of the objects from which the plugin may take one, -1 for one
// that has none: it looks at all of them.
func (s *capacityScene) sufficient(node *corev1.Node, class string, size int64) (found []int64) {
	for _, object := range s.stores.capacities.List() {
		c := object.(*storagev1.CSIStorageCapacity)
		limit := c.MaximumVolumeSize
		if limit == nil {
			limit = c.Capacity
		}
		if c.StorageClassName != class || limit == nil || limit.Value() < size || c.NodeTopology == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
		if err == nil && selector.Matches(labels.Set(node.Labels)) {
			capacity := int64(-1)
			if c.Capacity != nil {
				capacity = c.Capacity.Value()
			}
			found = append(found, capacity)
		}
	}
	return found
}

// TestCapacityOfNodesIsThatOfAllObjects compares, after random changes, what the table knows with
// what all objects tell.
func TestCapacityOfNodesIsThatOfAllObjects(t *testing.T) {
	s := newCapacityScene(t)
	var table capacityTable
	enough, sure, unsure := 0, 0, 0
	for range 20_000 {
		for range s.IntN(4) {
			s.disturb()
		}
		s.refresh()
		table.sync(s.stores, s.snapshot)
		class, size := fmt.Sprint(s.IntN(2)), s.Int64N(6)
		for name, node := range s.nodes {
			slot, _ := s.snapshot.SlotOf(name)
			all := s.sufficient(node, class, size)
			want := reported{enough: len(all) > 0}
			if want.enough {
				enough++
				want.capacity = all[0]
				if slices.Min(all) != slices.Max(all) {
					want.capacity = -1
				}
			}
			if got := table.find(slot, table.classOf(class), size); got != want {
				t.Fatalf("node %v, class %s, size %d: got %+v, want %+v", node.Labels, class, size, got, want)
			}
			if want.capacity > 0 {
				sure++
			} else if want.capacity < 0 {
				unsure++
			}
			s.expectListed(node, class, size, len(all))
		}
	}
	if enough < 5000 || sure < 2000 || unsure < 1000 {
		t.Errorf("%d nodes had room, %d with a known capacity, %d with several", enough, sure, unsure)
	}
}

// expectListed checks that all objects that are sufficient are listed for a node.
func (s *capacityScene) expectListed(node *corev1.Node, class string, size int64, want int) {
	s.Helper()
	listed, err := CapacitiesFor(s.stores.capacities, node.Labels)
	if err != nil {
		s.Fatal(err)
	}
	of := &capacityScene{claimScene: &claimScene{T: s.T, stores: &volumeStores{
		capacities: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, CapacityIndexers)}}}
	for _, object := range listed {
		of.add(of.stores.capacities, object)
	}
	if got := len(of.sufficient(node, class, size)); got != want {
		s.Fatalf("node %v, class %s, size %d: %d of %d sufficient objects are listed", node.Labels, class, size, got,
			want)
	}
}

func gibibytes(n int64) *resource.Quantity { return resource.NewQuantity(n<<30, resource.BinarySI) }

// TestNodesWhoseCapacityIsKnown has a pod with a claim of 2 GiB, and one of 3 GiB in some cases.
func TestNodesWhoseCapacityIsKnown(t *testing.T) {
	object := func(name string, capacity, most *resource.Quantity) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: name}, StorageClassName: "class",
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"host": "n"}},
			Capacity:     capacity, MaximumVolumeSize: most}
	}
	const refused, asked = -1, -2
	for name, test := range map[string]struct {
		objects []*storagev1.CSIStorageCapacity
		change  func(*capacityScene)
		// want is the score with the default shape, refused, or asked if the plugin must be run.
		want int64
	}{
		"no object":   {want: refused},
		"enough":      {objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(8), nil)}, want: 75},
		"not enough":  {objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(1), nil)}, want: refused},
		"just enough": {objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(2), nil)}, want: 0},
		"volumes are small": {
			objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(8), gibibytes(1))}, want: refused},
		"volumes are larger than what is left": {
			objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(1), gibibytes(4))}, want: 0},
		"an object without capacity": {
			objects: []*storagev1.CSIStorageCapacity{object("a", nil, gibibytes(4))}, want: asked},
		"two objects that differ": {objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(8), nil),
			object("b", gibibytes(4), nil)}, want: asked},
		"two objects that agree": {objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(8), gibibytes(2)),
			object("b", gibibytes(8), gibibytes(3))}, want: 75},
		"two objects, one of which is enough": {objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(8), nil),
			object("b", gibibytes(1), nil)}, want: 75},
		"the claims of a class count together": {
			objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(10), nil)}, change: (*capacityScene).claimMore,
			want: 50},
		"the claims of a class may have different objects": {
			objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(10), nil),
				object("b", gibibytes(20), gibibytes(2))}, change: (*capacityScene).claimMore, want: asked},
		"the second claim does not fit": {
			objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(10), gibibytes(2))},
			change:  (*capacityScene).claimMore, want: refused},
		"arguments that are not known": {
			objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(8), nil)},
			change:  func(s *capacityScene) { s.claims.scorer = &capacityScorer{} }, want: asked},
		"no score": {
			objects: []*storagev1.CSIStorageCapacity{object("a", gibibytes(8), nil), object("b", gibibytes(4), nil)},
			change:  func(s *capacityScene) { s.claims.scorer = nil }, want: 0},
		"a claim without a size": {
			change: func(s *capacityScene) { s.claim.Spec.Resources = corev1.VolumeResourceRequirements{} }, want: 0},
		"a volume that exists": {change: func(s *capacityScene) {
			s.volume.Spec.ClaimRef = nil
			s.volume.Spec.NodeAffinity.Required = selector(requirement("host", corev1.NodeSelectorOpIn, "n"))
		}, want: asked},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCapacityScene(t)
			s.setNode("n", map[string]string{"host": "n"})
			s.refresh()
			s.unbind()
			s.addDriver(true)
			s.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *gibibytes(2)}
			s.claims.scorer = newScorer(1, 0, 10, 100, 0)
			if test.change != nil {
				test.change(s)
			}
			for _, object := range test.objects {
				s.put(object)
			}
			if !s.read() {
				t.Fatal("the claims are not simple")
			}
			slot, _ := s.snapshot.SlotOf("n")
			kept, unknown := s.claims.judge([]cache.Slot{slot})
			got := int64(refused)
			switch {
			case unknown > 0:
				got = asked
			case len(kept) > 0 && s.claims.scoresNodes():
				got = s.claims.score(slot)
			case len(kept) > 0:
				got = 0
			}
			if got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// claimMore adds a claim for 3 GiB of the same class.
func (s *capacityScene) claimMore() {
	second := s.claim.DeepCopy()
	second.Name, second.UID = "second", "second"
	second.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *gibibytes(3)}
	s.add(s.stores.claims, second)
	s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, corev1.Volume{VolumeSource: claimed("second")})
}

// newScorer returns a scorer with pairs of utilization and score.
func newScorer(weight int64, shape ...int32) *capacityScorer {
	args := &schedconfig.VolumeBindingArgs{}
	for i := 0; i < len(shape); i += 2 {
		args.Shape = append(args.Shape, schedconfig.UtilizationShapePoint{Utilization: shape[i], Score: shape[i+1]})
	}
	return scorerOf(args, "VolumeBinding", weight)
}

func TestScoresByCapacity(t *testing.T) {
	for name, test := range map[string]struct {
		demands []classDemand
		want    int64
	}{
		"an empty node":               {[]classDemand{{requested: 0, capacity: 10}}, 0},
		"half of it":                  {[]classDemand{{requested: 5, capacity: 10}}, 100},
		"all of it":                   {[]classDemand{{requested: 10, capacity: 10}}, 200},
		"more than it has":            {[]classDemand{{requested: 11, capacity: 10}}, 200},
		"nothing":                     {[]classDemand{{requested: 0, capacity: 0}}, 200},
		"the mean of two is rounded":  {[]classDemand{{requested: 1, capacity: 100}, {requested: 2, capacity: 100}}, 4},
		"a product that is too large": {[]classDemand{{requested: 1 << 57, capacity: 1 << 62}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newScorer(2, 0, 0, 100, 10).score(test.demands); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestClaimsOfDriversThatReportCapacity(t *testing.T) {
	s := newClaimScene(t)
	s.unbind()
	s.addDriver(true)
	s.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *gibibytes(2)}
	s.claim.Spec.StorageClassName = nil
	s.claim.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "class"}
	if s.read() {
		t.Error("the score of a claim whose class is in an annotation is known")
	}
	s.claim.Spec.StorageClassName = ptr.To("class")
	if !s.read() || !s.claims.reports() {
		t.Error("the claim is not one whose driver reports capacity")
	}
}
