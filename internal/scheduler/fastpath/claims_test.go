// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// claimScene has volumes in the stores of informers, none of which runs.
type claimScene struct {
	*testing.T
	claims   claims
	snapshot *cache.Snapshot
	pod      *corev1.Pod
	claim    *corev1.PersistentVolumeClaim
	volume   *corev1.PersistentVolume
	class    *storagev1.StorageClass
}

// newClaimScene has a pod with a claim that is bound to a volume of some zone.
func newClaimScene(t *testing.T) *claimScene {
	factory := informers.NewSharedInformerFactory(fakeclient.NewClientset(), 0)
	s := &claimScene{T: t, snapshot: cache.NewSnapshot(), claims: claims{stores: newVolumeStores(factory)}}
	add := func(indexer toolscache.Indexer, name string, by toolscache.IndexFunc) {
		if err := indexer.AddIndexers(toolscache.Indexers{name: by}); err != nil {
			t.Fatal(err)
		}
	}
	add(s.claims.stores.volumes, volumesByClass, func(object any) ([]string, error) {
		return []string{object.(*corev1.PersistentVolume).Spec.StorageClassName}, nil
	})
	add(s.claims.stores.attachments, attachmentsByNode, func(object any) ([]string, error) {
		return []string{object.(*storagev1.VolumeAttachment).Spec.NodeName}, nil
	})
	s.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
		Name: "pod"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
	}}}
	s.claim = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "claim",
			Annotations: map[string]string{volume.AnnBindCompleted: "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "volume", StorageClassName: ptr.To("class")},
	}
	s.volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "class",
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "driver", VolumeHandle: "volume"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: selector(requirement("zone", corev1.NodeSelectorOpIn, "a"))},
			ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "other", UID: "other"},
		}}
	s.class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}, Provisioner: "driver"}
	return s
}

func requirement(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func selector(requirements ...corev1.NodeSelectorRequirement) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}}}
}

func (s *claimScene) add(store toolscache.Store, object any) {
	s.Helper()
	if err := store.Add(object); err != nil {
		s.Fatal(err)
	}
}

func (s *claimScene) read() bool {
	s.Helper()
	s.add(s.claims.stores.claims, s.claim)
	s.add(s.claims.stores.volumes, s.volume)
	s.add(s.claims.stores.classes, s.class)
	return s.claims.read(s.snapshot, s.pod)
}

func (s *claimScene) unbind() {
	s.claim.Spec.VolumeName, s.claim.Annotations = "", nil
}

func TestClaimsThatNeedNoPlugins(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*claimScene)
		simple bool
	}{
		"a bound claim":                      {func(*claimScene) {}, true},
		"a volume that every node can mount": {func(s *claimScene) { s.volume.Spec.NodeAffinity = nil }, true},
		"a claim that is not there":          {func(s *claimScene) { s.claim.Name = "other" }, false},
		"a volume that is not there":         {func(s *claimScene) { s.volume.Name = "other" }, false},
		"a claim that is about to be bound":  {func(s *claimScene) { s.claim.Annotations = nil }, false},
		"a volume on a node's disk": {func(s *claimScene) {
			s.volume.Spec.CSI, s.volume.Spec.Local = nil,
				&corev1.LocalVolumeSource{}
		}, true},
		"a volume that may be translated": {func(s *claimScene) { s.volume.Spec.CSI = nil }, false},
		"a volume of nodes by their field": {func(s *claimScene) {
			s.volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchFields = selector(requirement("metadata.name",
				"In", "n")).NodeSelectorTerms[0].MatchExpressions
		}, false},
		"a disk besides": {func(s *claimScene) {
			s.pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}
		}, false},
		"a claim that is made for the pod": {func(s *claimScene) {
			s.pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
		}, false},
		"no claim": {func(s *claimScene) { s.pod.Spec.Volumes = s.pod.Spec.Volumes[:1] },
			false},
		"a volume that is yet to be made":  {(*claimScene).unbind, true},
		"one of a class that is not there": {func(s *claimScene) { s.unbind(); s.class.Name = "other" }, false},
		"one of a class that makes no volumes": {
			func(s *claimScene) { s.unbind(); s.class.Provisioner = volume.NotSupportedProvisioner }, false},
		"one that is being made for a node": {
			func(s *claimScene) { s.unbind(); s.claim.Annotations = map[string]string{volume.AnnSelectedNode: "n"} },
			false},
		"one for which there is a volume": {func(s *claimScene) { s.unbind(); s.volume.Spec.ClaimRef = nil }, false},
		"one for which a volume is meant": {func(s *claimScene) {
			s.unbind()
			s.volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "claim"}
		}, false},
		"one of a selector": {
			func(s *claimScene) { s.unbind(); s.claim.Spec.Selector = &metav1.LabelSelector{} }, false},
		"one of a driver with limited capacity": {func(s *claimScene) { s.unbind(); s.addDriver(true) }, false},
		"one of a driver with capacity":         {func(s *claimScene) { s.unbind(); s.addDriver(false) }, true},
		"one that another pod uses":             {func(s *claimScene) { s.unbind(); s.addUser() }, false},
		"a bound claim that another pod uses":   {(*claimScene).addUser, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClaimScene(t)
			test.change(s)
			if got := s.read(); got != test.simple {
				t.Errorf("got %t", got)
			}
		})
	}
}

func (s *claimScene) addDriver(capacity bool) {
	s.add(s.claims.stores.csiDrivers, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "driver"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &capacity},
	})
}

// addUser adds another pod that uses the claim.
func (s *claimScene) addUser() {
	c := cache.New()
	c.AddNode(logr.Discard(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	other := s.pod.DeepCopy()
	other.Name, other.UID, other.Spec.NodeName = "other", "other", "n"
	if err := c.AddPod(logr.Discard(), other); err != nil {
		s.Fatal(err)
	}
	if err := c.UpdateSnapshot(logr.Discard(), s.snapshot); err != nil {
		s.Fatal(err)
	}
}

// TestVolumesMatchNodesLikeTheLibrary uses random affinities and labels.
func TestVolumesMatchNodesLikeTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	keys, values := []string{"zone", "disk", "host"}, []string{"a", "b", "c", ""}
	matched := 0
	const tries = 5000
	for range tries {
		of := &corev1.NodeSelector{}
		for range r.IntN(3) {
			var term corev1.NodeSelectorTerm
			for range r.IntN(3) {
				operator := corev1.NodeSelectorOpIn
				if r.IntN(6) == 0 {
					operator = corev1.NodeSelectorOpNotIn
				}
				term.MatchExpressions = append(term.MatchExpressions,
					requirement(keys[r.IntN(3)], operator, values[r.IntN(4)], values[r.IntN(4)]))
			}
			of.NodeSelectorTerms = append(of.NodeSelectorTerms, term)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		for _, key := range keys {
			if r.IntN(4) > 0 {
				node.Labels[key] = values[r.IntN(4)]
			}
		}
		affinity, ok := newVolumeAffinity(of)
		want := volume.CheckNodeAffinity(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: of},
		}}, node.Labels) == nil
		if got := affinity.match(node); !ok || got != want {
			t.Fatalf("%v, %v: got %t, want %t", of, node.Labels, got, want)
		}
		if want {
			matched++
		}
	}
	if matched < tries/10 || matched > tries*9/10 {
		t.Errorf("%d of %d matched", matched, tries)
	}
}

func TestTopologiesThatAClassAllows(t *testing.T) {
	s := newClaimScene(t)
	s.unbind()
	s.class.AllowedTopologies = []corev1.TopologySelectorTerm{
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: "zone", Values: []string{"a", "b"}},
		}}}
	if !s.read() {
		t.Fatal("the claim is not a simple one")
	}
	for zone, want := range map[string]bool{"a": true, "b": true, "c": false} {
		if got := s.claims.match(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": zone}}}); got != want {
			t.Errorf("zone %s: got %t", zone, got)
		}
	}
}

func TestLimitsOfVolumes(t *testing.T) {
	for name, test := range map[string]struct {
		limits   []int32 // of one driver each; below 0: no limit
		inUse    int32
		attached int
		within   bool
	}{
		"a node without drivers":                  {nil, 1000, 0, true},
		"a driver without a limit":                {[]int32{-1}, 1000, 0, true},
		"room for one":                            {[]int32{3}, 2, 0, true},
		"no room":                                 {[]int32{3}, 3, 0, false},
		"no room beside what is attached":         {[]int32{3}, 1, 2, false},
		"room beside what is attached":            {[]int32{3}, 1, 1, true},
		"the lowest limit counts":                 {[]int32{9, 3, -1}, 3, 0, false},
		"other volumes that may count":            {[]int32{9}, -1, 0, false},
		"other volumes on a node without a limit": {nil, -1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClaimScene(t)
			s.read()
			csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			for i, limit := range test.limits {
				driver := storagev1.CSINodeDriver{Name: fmt.Sprint(i)}
				if limit >= 0 {
					driver.Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
				}
				csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, driver)
			}
			s.add(s.claims.stores.csiNodes, csiNode)
			for i := range test.attached {
				s.add(s.claims.stores.attachments, &storagev1.VolumeAttachment{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)},
					Spec:       storagev1.VolumeAttachmentSpec{NodeName: "n"},
				})
			}
			if got := s.claims.withinLimits("n", test.inUse); got != test.within {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestDriversThatMustBeOnTheNode(t *testing.T) {
	s := newClaimScene(t)
	s.volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com"}}
	s.add(s.claims.stores.csiDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"},
		Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: ptr.To(true)}})
	s.read()
	for node, driver := range map[string]string{"with": "csi.example.com", "without": "another"} {
		s.add(s.claims.stores.csiNodes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver}}}})
	}
	for node, want := range map[string]bool{"with": true, "without": false, "unknown": false} {
		if got := s.claims.withinLimits(node, 0); got != want {
			t.Errorf("node %s is known to have the driver: %t", node, got)
		}
	}
	s.claims.drivers = nil
	s.claims.addDriver("kubernetes.io/gce-pd")
	s.add(s.claims.stores.csiDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "pd.csi.storage.gke.io"},
		Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: ptr.To(true)}})
	s.claims.addDriver("kubernetes.io/gce-pd")
	if len(s.claims.drivers) != 1 {
		t.Errorf("the driver of an in-tree provisioner is not found: %v", s.claims.drivers)
	}
}

func TestVolumesInUseAreCounted(t *testing.T) {
	s := newClaimScene(t)
	s.addUser()
	var table claimTable
	table.sync(s.snapshot)
	slot, _ := s.snapshot.SlotOf("n")
	if got := table.inUse[slot]; got != 1 {
		t.Errorf("%d volumes are in use", got)
	}
	s.pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}
	s.snapshot = cache.NewSnapshot()
	s.addUser()
	table = claimTable{}
	if table.sync(s.snapshot); table.inUse[0] != -1 {
		t.Errorf("%d volumes are in use, and a disk", table.inUse[0])
	}
}
