// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// TestVolumesOnANodeAreThoseThatCanBeBoundThere compares, for random volumes, claims and nodes, the
// volume that FindMatchingVolume takes from all of the class and from those that are listed.
func TestVolumesOnANodeAreThoseThatCanBeBoundThere(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	names := []string{"a", "b", "c", ""}
	const tries = 5000
	found, leftOut := 0, 0
	for range tries {
		store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, VolumeIndexers)
		for i := range 8 {
			if err := store.Add(randomVolume(r, i)); err != nil {
				t.Fatal(err)
			}
		}
		// The index follows updates.
		if err := store.Update(randomVolume(r, r.IntN(8))); err != nil {
			t.Fatal(err)
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: names[r.IntN(3)], UID: types.UID(names[r.IntN(3)])},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &names[r.IntN(2)]}}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		for _, key := range names[:3] {
			if r.IntN(4) > 0 {
				node.Labels[key] = names[r.IntN(4)]
			}
		}
		take := func(objects []any) string {
			var ofClass []*corev1.PersistentVolume
			for _, object := range objects {
				if pv := object.(*corev1.PersistentVolume); pv.Spec.StorageClassName == *claim.Spec.StorageClassName {
					ofClass = append(ofClass, pv)
				}
			}
			slices.SortFunc(ofClass, func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
			best, err := volume.FindMatchingVolume(claim, ofClass, node, nil, true, true)
			if err != nil || best == nil {
				return ""
			}
			return best.Name
		}
		listed, err := VolumesOn(store, *claim.Spec.StorageClassName, node.Labels, claim.UID)
		if err != nil {
			t.Fatal(err)
		}
		leftOut += len(store.List()) - len(listed)
		want := take(store.List())
		if got := take(listed); got != want {
			t.Fatalf("claim %v, node %v: got %q, want %q", claim, node.Labels, got, want)
		}
		if want != "" {
			found++
		}
		elsewhere, err := VolumesOn(store, *claim.Spec.StorageClassName, nil, claim.UID)
		if err != nil || len(elsewhere) < len(listed) && !ArePlaced(store, *claim.Spec.StorageClassName) {
			t.Fatalf("%d volumes without placed ones, %d on a node (%v)", len(elsewhere), len(listed), err)
		}
	}
	if found < tries/5 || found > tries*9/10 || leftOut < tries {
		t.Errorf("%d of %d claims found a volume, %d volumes were left out", found, tries, leftOut)
	}
}

// randomVolume returns the i-th volume: mostly one that nodes with one value of a label can mount.
func randomVolume(r *rand.Rand, i int) *corev1.PersistentVolume {
	names := []string{"a", "b", "c", ""}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
	pv.Spec.StorageClassName, pv.Status.Phase = names[r.IntN(2)], corev1.VolumeAvailable
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(i), resource.BinarySI)}
	if r.IntN(3) == 0 {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: names[r.IntN(3)],
			UID: types.UID(names[r.IntN(4)])}
	}
	only := requirement(names[r.IntN(3)], corev1.NodeSelectorOpIn, names[r.IntN(4)])
	required := selector(only)
	switch r.IntN(10) {
	case 0:
		return pv
	case 1:
		required = selector(requirement(only.Key, corev1.NodeSelectorOpNotIn, only.Values[0]))
	case 2:
		required = selector(only, requirement(names[r.IntN(3)], corev1.NodeSelectorOpIn, names[r.IntN(4)]))
	case 3:
		required = selector(requirement(only.Key, corev1.NodeSelectorOpIn, only.Values[0], names[r.IntN(4)]))
	case 4:
		required.NodeSelectorTerms = append(required.NodeSelectorTerms,
			selector(requirement(names[r.IntN(3)], corev1.NodeSelectorOpExists)).NodeSelectorTerms...)
	}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: required}
	return pv
}

// TestNodesWithFreeVolumes has a claim of a class with volumes on some of three nodes.
func TestNodesWithFreeVolumes(t *testing.T) {
	on := func(s *capacityScene, first, last int) {
		for i := first; i < last; i++ {
			pv := randomVolume(rand.New(rand.NewPCG(1, 1)), i)
			pv.Spec.StorageClassName, pv.Spec.ClaimRef = "class", nil
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
				Required: selector(requirement("host", corev1.NodeSelectorOpIn, fmt.Sprint(i)))}
			s.add(s.stores.volumes, pv)
		}
	}
	inZone := func(s *capacityScene, n int) {
		for i := range n {
			pv := randomVolume(rand.New(rand.NewPCG(1, 1)), 1000+i)
			pv.Spec.StorageClassName, pv.Spec.ClaimRef = "class", nil
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
				Required: selector(requirement("zone", corev1.NodeSelectorOpIn, "a", "b"))}
			s.add(s.stores.volumes, pv)
		}
	}
	const other = 100 // the node on which no volume is
	for name, test := range map[string]struct {
		volumes func(*capacityScene)
		creates bool
		// asked and accepted are the nodes, of 0, 1 and other, about which the plugin is asked, and
		// which are known to be accepted.
		asked, accepted []int
		simple          bool
	}{
		"few volumes":               {func(s *capacityScene) { on(s, 0, 2) }, false, []int{0, 1}, nil, true},
		"many volumes":              {func(s *capacityScene) { on(s, 1, 50) }, false, []int{1}, nil, true},
		"many volumes, or new ones": {func(s *capacityScene) { on(s, 1, 50) }, true, []int{1}, []int{0, other}, true},
		"many volumes, and a few in a zone": {func(s *capacityScene) { on(s, 1, 50); inZone(s, 3) }, false,
			[]int{0, 1}, nil, true},
		"many volumes in a zone": {func(s *capacityScene) { inZone(s, maxStatic+1) }, false, nil, nil, false},
		"no volumes":             {func(*capacityScene) {}, false, nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCapacityScene(t)
			s.setNode("0", map[string]string{"host": "0", "zone": "a"})
			s.setNode("1", map[string]string{"host": "1"})
			s.setNode(fmt.Sprint(other), map[string]string{"host": fmt.Sprint(other)})
			s.refresh()
			s.unbind()
			if !test.creates {
				s.class.Provisioner = volume.NotSupportedProvisioner
			}
			test.volumes(s)
			if simple := s.read(); simple != test.simple {
				t.Fatalf("simple: %t", simple)
			} else if !simple {
				return
			}
			var nodes []cache.Slot
			for _, name := range []int{0, 1, other} {
				slot, _ := s.snapshot.SlotOf(fmt.Sprint(name))
				nodes = append(nodes, slot)
			}
			var asked, accepted []int
			kept, _ := s.claims.judge(nodes)
			for _, slot := range kept {
				var name int
				if _, err := fmt.Sscan(s.snapshot.Info(slot).Node().Name, &name); err != nil {
					t.Fatal(err)
				}
				if s.claims.accepts(slot) {
					accepted = append(accepted, name)
				} else {
					asked = append(asked, name)
				}
			}
			if !slices.Equal(asked, test.asked) || !slices.Equal(accepted, test.accepted) {
				t.Errorf("asked about %v, accepted %v", asked, accepted)
			}
		})
	}
}
