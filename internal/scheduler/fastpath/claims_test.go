// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	claims   claimCheck
	stores   *volumeStores
	snapshot *cache.Snapshot
	pod      *corev1.Pod
	claim    *corev1.PersistentVolumeClaim
	volume   *corev1.PersistentVolume
	class    *storagev1.StorageClass
}

// newClaimScene has a pod with a claim that is bound to a volume of some zone.
func newClaimScene(t *testing.T) *claimScene {
	factory := informers.NewSharedInformerFactory(fakeclient.NewClientset(), 0)
	s := &claimScene{T: t, snapshot: cache.NewSnapshot(), stores: newVolumeStores(factory, NewVolumeChanges())}
	add := func(indexer toolscache.Indexer, name string, by toolscache.IndexFunc) {
		if err := indexer.AddIndexers(toolscache.Indexers{name: by}); err != nil {
			t.Fatal(err)
		}
	}
	add(s.stores.attachments, attachmentsByNode, func(object any) ([]string, error) {
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
	s.add(s.stores.claims, s.claim)
	s.add(s.stores.volumes, s.volume)
	s.add(s.stores.classes, s.class)
	return s.claims.read(s.stores, s.snapshot, s.pod)
}

// inTree makes the volume one of an in-tree plugin.
func (s *claimScene) inTree(id string) {
	s.volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id}}
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
		"a volume that is translated":        {func(s *claimScene) { s.inTree("volume") }, true},
		"a volume that cannot be translated": {func(s *claimScene) { s.inTree("aws://zone/disk") }, false},
		"a volume that no driver can mount":  {func(s *claimScene) { s.volume.Spec.CSI = nil }, true},
		"a volume of nodes by their field": {func(s *claimScene) {
			s.volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchFields = selector(requirement("metadata.name",
				"In", "n")).NodeSelectorTerms[0].MatchExpressions
		}, false},
		"a disk besides": {func(s *claimScene) {
			s.pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}
		}, false},
		"a claim that is made for the pod": {func(s *claimScene) {
			s.pod.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{}}}}
			s.claim.Name = "pod-own"
		}, true},
		"no claim": {func(s *claimScene) { s.pod.Spec.Volumes = s.pod.Spec.Volumes[:1] },
			false},
		"a volume that is yet to be made":  {(*claimScene).unbind, true},
		"one of a class that is not there": {func(s *claimScene) { s.unbind(); s.class.Name = "other" }, false},
		"one of a class that makes no volumes": {
			func(s *claimScene) { s.unbind(); s.class.Provisioner = volume.NotSupportedProvisioner }, true},
		"one that is being made for a node": {
			func(s *claimScene) { s.unbind(); s.claim.Annotations = map[string]string{volume.AnnSelectedNode: "n"} },
			true},
		"one for which there is a volume": {func(s *claimScene) { s.unbind(); s.volume.Spec.ClaimRef = nil }, true},
		"one for which there is a volume that every node can mount": {func(s *claimScene) {
			s.unbind()
			s.volume.Spec.ClaimRef, s.volume.Spec.NodeAffinity = nil, nil
		}, false},
		"one for which a volume is meant": {func(s *claimScene) {
			s.unbind()
			s.volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "claim"}
		}, true},
		"one of a selector": {
			func(s *claimScene) { s.unbind(); s.claim.Spec.Selector = &metav1.LabelSelector{} }, true},
		"one of a driver that reports capacity": {func(s *claimScene) { s.unbind(); s.addDriver(true) }, true},
		"one of a driver that does not":         {func(s *claimScene) { s.unbind(); s.addDriver(false) }, true},
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
	s.add(s.stores.csiDrivers, &storagev1.CSIDriver{
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
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": zone}}}
		if got := s.claims.affinities[0].match(node); got != want {
			t.Errorf("zone %s: got %t", zone, got)
		}
	}
}

// withNode refreshes the snapshot with a node, and with pods on it that have these volumes.
func (s *claimScene) withNode(pods ...corev1.VolumeSource) cache.Slot {
	s.Helper()
	c := cache.New()
	c.AddNode(logr.Discard(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	for i, source := range pods {
		name := fmt.Sprint(i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		pod.Spec.NodeName, pod.Spec.Volumes = "n", []corev1.Volume{{VolumeSource: source}}
		if err := c.AddPod(logr.Discard(), pod); err != nil {
			s.Fatal(err)
		}
	}
	if err := c.UpdateSnapshot(logr.Discard(), s.snapshot); err != nil {
		s.Fatal(err)
	}
	slot, _ := s.snapshot.SlotOf("n")
	return slot
}

func claimed(name string) corev1.VolumeSource {
	return corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// csiNode returns the CSINode of the node, with a driver for each limit; below 0: no limit.
func csiNode(limits ...int32) *storagev1.CSINode {
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for i, limit := range limits {
		driver := storagev1.CSINodeDriver{Name: fmt.Sprint(i)}
		if limit >= 0 {
			driver.Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
		}
		node.Spec.Drivers = append(node.Spec.Drivers, driver)
	}
	return node
}

func attachment(name, volume string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: "n", Attacher: "driver",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
}

func TestRoomForVolumes(t *testing.T) {
	disk := corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}
	for name, test := range map[string]struct {
		limits   []int32
		pods     []corev1.VolumeSource
		attached []string
		room     int32
	}{
		"a node without drivers":       {nil, []corev1.VolumeSource{claimed("a")}, nil, unlimited},
		"a driver without a limit":     {[]int32{-1}, []corev1.VolumeSource{claimed("a")}, nil, unlimited},
		"an empty node":                {[]int32{3}, nil, nil, 3},
		"claims in use":                {[]int32{3}, []corev1.VolumeSource{claimed("a"), claimed("a")}, nil, 1},
		"more claims than the limit":   {[]int32{1}, []corev1.VolumeSource{claimed("a"), claimed("b")}, nil, 0},
		"volumes attached besides":     {[]int32{5}, []corev1.VolumeSource{claimed("a")}, []string{"x", "y"}, 2},
		"an attached volume in use":    {[]int32{5}, []corev1.VolumeSource{claimed("claim")}, []string{"volume"}, 4},
		"the lowest limit counts":      {[]int32{9, 3, -1}, nil, nil, 3},
		"other volumes that may count": {[]int32{9}, []corev1.VolumeSource{claimed("a"), disk}, nil, -1},
		"such volumes without a limit": {nil, []corev1.VolumeSource{disk}, nil, unlimited},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClaimScene(t)
			s.read()
			s.add(s.stores.csiNodes, csiNode(test.limits...))
			for i, volume := range test.attached {
				s.add(s.stores.attachments, attachment(fmt.Sprint(i), volume))
			}
			slot := s.withNode(test.pods...)
			var table volumeTable
			table.sync(s.stores, s.snapshot)
			if got := table.nodes[slot].room; got != test.room {
				t.Errorf("room for %d", got)
			}
		})
	}
}

// TestRoomFollowsEvents changes one object after the other.
func TestRoomFollowsEvents(t *testing.T) {
	s := newClaimScene(t)
	s.read()
	var table volumeTable
	slot := s.withNode()
	expect := func(what string, room int32, tight int) {
		t.Helper()
		table.sync(s.stores, s.snapshot)
		sorted := 0
		for _, slots := range table.tight.slots {
			sorted += len(slots)
		}
		if got := table.nodes[slot].room; got != room || sorted != tight {
			t.Errorf("%s: room for %d, %d nodes are tight", what, got, sorted)
		}
	}
	expect("no CSINode", unlimited, 0)
	change := func(store toolscache.Store, object any) {
		before, exists, _ := store.Get(object)
		s.add(store, object)
		if exists {
			s.stores.changes.OnUpdate(before, object)
		} else {
			s.stores.changes.OnAdd(object, false)
		}
	}
	change(s.stores.csiNodes, csiNode(40))
	expect("a limit", 40, 0)
	change(s.stores.csiNodes, csiNode(4))
	expect("a low limit", 4, 1)
	change(s.stores.attachments, attachment("a", "x"))
	expect("a volume is attached", 3, 1)
	if err := s.stores.attachments.Delete(attachment("a", "x")); err != nil {
		t.Fatal(err)
	}
	s.stores.changes.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: attachment("a", "x")})
	expect("it is detached", 4, 1)
	for range 2*maxVolumeChanges + 1 { // more than the list keeps
		s.stores.changes.OnAdd(csiNode(), false)
	}
	s.add(s.stores.csiNodes, csiNode(7))
	expect("many changes", 7, 1)
	if err := s.stores.csiNodes.Delete(csiNode()); err != nil {
		t.Fatal(err)
	}
	s.stores.changes.OnDelete(csiNode())
	expect("the CSINode is gone", unlimited, 0)
}

func TestUpdatesOfAttachmentsAreNoChanges(t *testing.T) {
	changes := NewVolumeChanges()
	changes.OnUpdate(attachment("a", "x"), attachment("a", "x"))
	if nodes, _, _ := changes.since(1); len(nodes) > 0 {
		t.Errorf("changes of %v", nodes)
	}
}

func TestDriversThatMustBeOnTheNode(t *testing.T) {
	s := newClaimScene(t)
	s.add(s.stores.csiDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "driver"},
		Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: ptr.To(true)}})
	s.read()
	slot := s.withNode()
	expect := func(what string, want bool) {
		t.Helper()
		s.claims.table.sync(s.stores, s.snapshot)
		if got := s.claims.withinLimits(slot); got != want {
			t.Errorf("%s: the node is known to have the driver: %t", what, got)
		}
	}
	expect("no CSINode", false)
	node := csiNode(-1)
	s.add(s.stores.csiNodes, node)
	s.stores.changes.OnAdd(node, false)
	expect("another driver", false)
	node = csiNode(-1)
	node.Spec.Drivers[0].Name = "driver"
	s.add(s.stores.csiNodes, node)
	s.stores.changes.OnAdd(node, false)
	expect("the driver", true)
	s.claims.drivers = nil
	s.claims.addDriver("kubernetes.io/gce-pd")
	s.add(s.stores.csiDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "pd.csi.storage.gke.io"},
		Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: ptr.To(true)}})
	s.claims.addDriver("kubernetes.io/gce-pd")
	if len(s.claims.drivers) != 1 {
		t.Errorf("the driver of an in-tree provisioner is not found: %v", s.claims.drivers)
	}
}

// TestVolumesForAreThoseThatCanBeBound compares, for random volumes and claims, the volumes that
// can be bound if those of other claims are left out.
func TestVolumesForAreThoseThatCanBeBound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	names := []string{"a", "b", "c", ""}
	const tries, volumes = 2000, 8
	found, leftOut := 0, 0
	for range tries {
		store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, VolumeIndexers)
		var all []*corev1.PersistentVolume
		for i := range volumes {
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
			pv.Spec.StorageClassName, pv.Status.Phase = names[r.IntN(2)], corev1.VolumeAvailable
			size := resource.NewQuantity(int64(i), resource.BinarySI)
			pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *size}
			if r.IntN(4) > 0 {
				pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: names[r.IntN(3)],
					UID: types.UID(names[r.IntN(4)])}
			}
			all = append(all, pv)
			if err := store.Add(pv); err != nil {
				t.Fatal(err)
			}
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: names[r.IntN(3)], UID: types.UID(names[r.IntN(3)])},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &names[r.IntN(2)]}}
		listed, err := VolumesFor(store, *claim.Spec.StorageClassName, claim.UID)
		if err != nil {
			t.Fatal(err)
		}
		of := func(volumes []*corev1.PersistentVolume) string {
			slices.SortFunc(volumes, func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
			best, err := volume.FindMatchingVolume(claim, volumes, &corev1.Node{}, nil, true, true)
			if err != nil || best == nil {
				return ""
			}
			return best.Name
		}
		var few, ofClass []*corev1.PersistentVolume
		for _, object := range listed {
			few = append(few, object.(*corev1.PersistentVolume))
		}
		for _, pv := range all {
			if pv.Spec.StorageClassName == *claim.Spec.StorageClassName {
				ofClass = append(ofClass, pv)
			}
		}
		leftOut += len(ofClass) - len(few)
		want := of(ofClass)
		if got := of(few); got != want {
			t.Fatalf("claim %v of %v: got %q, want %q", claim, all, got, want)
		}
		if want != "" {
			found++
		}
	}
	if found < tries/4 || found > tries*9/10 || leftOut < tries {
		t.Errorf("%d of %d claims found a volume, %d volumes were left out", found, tries, leftOut)
	}
}

// TestANodeThatTakesASlotHasItsOwnRoom replaces a node by another within one refresh.
func TestANodeThatTakesASlotHasItsOwnRoom(t *testing.T) {
	s := newClaimScene(t)
	s.add(s.stores.csiNodes, csiNode(4))
	c := cache.New()
	var table volumeTable
	sync := func(node string) int32 {
		t.Helper()
		if err := c.UpdateSnapshot(logr.Discard(), s.snapshot); err != nil {
			t.Fatal(err)
		}
		table.sync(s.stores, s.snapshot)
		slot, _ := s.snapshot.SlotOf(node)
		return table.nodes[slot].room
	}
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	c.AddNode(logr.Discard(), node("n"))
	if room := sync("n"); room != 4 {
		t.Fatalf("room for %d", room)
	}
	if err := c.RemoveNode(logr.Discard(), node("n")); err != nil {
		t.Fatal(err)
	}
	c.AddNode(logr.Discard(), node("m"))
	if room := sync("m"); room != unlimited || s.snapshot.Slots() != 1 {
		t.Errorf("room for %d, %d slots", room, s.snapshot.Slots())
	}
}

func TestNodesWithLittleRoomAreLookedAt(t *testing.T) {
	s := newClaimScene(t)
	s.volume.Spec.NodeAffinity = nil
	s.add(s.stores.csiNodes, csiNode(1))
	slot := s.withNode(claimed("other"))
	s.claims.simple = s.read()
	rows := &localRows{columns: columns{verdict: make([]uint16, s.snapshot.Slots())}}
	if s.claims.acceptAll(rows) {
		t.Error("a full node is accepted")
	}
	rows.verdict[slot] = refused
	if !s.claims.acceptAll(rows) {
		t.Error("a node that is refused anyway matters")
	}
}
