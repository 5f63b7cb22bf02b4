// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// csiDriver has a limit of volumes on some nodes.
const csiDriver = "csi.example"

// volumeKind is the kind of volumes that the pods of a template have.
type volumeKind string

const (
	// zonal volumes are bound, and the nodes of a zone can mount them; labelled ones also have a
	// zone label.
	zonal, labelled volumeKind = "zonal", "labelled"
	// local volumes are bound, and on one node.
	local volumeKind = "local"
	// found volumes are chosen among existing ones once the pod has a node.
	found volumeKind = "found"
	// provisioned volumes are created once the pod has a node, where topology and capacity allow
	// it.
	provisioned volumeKind = "provisioned"
	// shared volumes belong to one claim that several pods use, or that only one pod may use.
	shared volumeKind = "shared"
	// disk is a disk that pods on one node cannot share.
	disk volumeKind = "disk"
	// inTree volumes are bound, and on some nodes mounted by a CSI driver.
	inTree volumeKind = "intree"
	// mixed volumes are chosen among few existing ones or created, once the pod has a node.
	mixed volumeKind = "mixed"
	// selected volumes are being created for a node. own volumes are created for one pod.
	selected, own volumeKind = "selected", "own"
	// anywhere volumes are bound, and every node can mount them.
	anywhere volumeKind = "anywhere"
	// measured and pooled volumes are created once the pod has a node, by a driver that reports its
	// capacity: of each node, or of some nodes together.
	measured, pooled volumeKind = "measured", "pooled"
)

var volumeKinds = []volumeKind{zonal, zonal, labelled, local, found, provisioned, shared, disk, inTree, inTree, mixed,
	selected, own, anywhere, measured, measured, pooled}

// driverZone is the label by which the CSI driver of inTree volumes knows zones.
const driverZone = "topology.ebs.csi.aws.com/zone"

// volumeKey is the label of a template that names the kind of its pods' volumes.
const volumeKey = "volumes"

func (w *world) indexer(informer interface{ GetIndexer() cache.Indexer }) cache.Indexer {
	return informer.GetIndexer()
}

func (w *world) put(indexer cache.Indexer, object metav1.Object) {
	w.versions++
	object.SetResourceVersion(fmt.Sprint(w.versions))
	w.must(indexer.Update(object))
	w.volumeChanges.OnAdd(object, false)
}

func (w *world) volumeIndexer() cache.Indexer {
	return w.indexer(w.handle.SharedInformerFactory().Core().V1().PersistentVolumes().Informer())
}

func (w *world) claimIndexer() cache.Indexer {
	return w.indexer(w.handle.SharedInformerFactory().Core().V1().PersistentVolumeClaims().Informer())
}

// addStorage makes the storage classes, and the volumes that can be found.
func (w *world) addStorage() {
	storage := w.handle.SharedInformerFactory().Storage().V1()
	classes := w.indexer(storage.StorageClasses().Informer())
	for _, class := range []storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: string(zonal)}, Provisioner: csiDriver,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)},
		{ObjectMeta: metav1.ObjectMeta{Name: string(found)}, Provisioner: "kubernetes.io/no-provisioner",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)},
		{
			ObjectMeta: metav1.ObjectMeta{Name: string(provisioned)}, Provisioner: csiDriver,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			AllowedTopologies: []corev1.TopologySelectorTerm{
				{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
					{Key: zone, Values: []string{"zone-0", "zone-1", "zone-2"}},
				}}},
		},
		{ObjectMeta: metav1.ObjectMeta{Name: string(mixed)}, Provisioner: csiDriver,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)},
		{ObjectMeta: metav1.ObjectMeta{Name: string(selected)}, Provisioner: csiDriver,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)},
	} {
		w.put(classes, &class)
	}
	for range 10 + w.IntN(40) {
		w.addVolume(found, "")
	}
	for range w.IntN(4) {
		w.addVolume(mixed, "")
	}
	w.addCapacities()
	w.put(w.indexer(storage.CSIDrivers().Informer()), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: awsDriver},
		Spec:       storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: ptr.To(w.chance(50))},
	})
}

const (
	awsPlugin = "kubernetes.io/aws-ebs"
	awsDriver = "ebs.csi.aws.com"
)

// addLimit sets, changes or removes a node's drivers and their limits of volumes.
func (w *world) addLimit(node string) {
	csiNodes := w.indexer(w.handle.SharedInformerFactory().Storage().V1().CSINodes().Informer())
	if gone, exists, _ := csiNodes.GetByKey(node); exists && w.chance(10) {
		w.must(csiNodes.Delete(gone))
		w.volumeChanges.OnDelete(gone)
		return
	}
	csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	driver := storagev1.CSINodeDriver{Name: csiDriver, NodeID: node}
	if w.chance(60) {
		limit := int32(w.IntN(8))
		if w.roomy {
			limit += 100
		}
		driver.Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
	}
	csiNode.Spec.Drivers = []storagev1.CSINodeDriver{driver}
	if w.chance(60) {
		csiNode.Annotations = map[string]string{
			corev1.MigratedPluginsAnnotationKey: "kubernetes.io/gce-pd," + awsPlugin,
		}
	}
	if w.chance(60) {
		driver.Name = awsDriver
		csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, driver)
	}
	w.put(csiNodes, csiNode)
}

// attach attaches a volume to a node, or detaches one: mostly one that a pod on the node uses.
func (w *world) attach() {
	attachments := w.indexer(w.handle.SharedInformerFactory().Storage().V1().VolumeAttachments().Informer())
	if old := inOrder(attachments); len(old) > 0 && w.chance(40) {
		gone := pick(w.generator, old)
		w.must(attachments.Delete(gone))
		w.volumeChanges.OnDelete(cache.DeletedFinalStateUnknown{Obj: gone})
		return
	}
	volumes := inOrder(w.volumeIndexer())
	if len(volumes) == 0 {
		return
	}
	name, node := pick(w.generator, volumes).(*corev1.PersistentVolume).Name, pick(w.generator, w.nodes).Name
	if len(w.pods) > 0 && w.chance(80) {
		pod := pick(w.generator, w.pods)
		claim, exists, _ := w.claimIndexer().GetByKey(namespaces[0] + "/claim-" + pod.Name)
		if exists {
			name, node = claim.(*corev1.PersistentVolumeClaim).Spec.VolumeName, pod.Spec.NodeName
		}
	}
	w.put(attachments, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + node},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: node, Attacher: pick(w.generator, []string{csiDriver, csiDriver,
			awsDriver}), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
	})
}

// addVolume makes a volume, for a claim if it has a name, and returns its name.
func (w *world) addVolume(of volumeKind, claim string) string {
	w.versions++
	name := fmt.Sprintf("volume-%d", w.versions)
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: string(of),
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity((1+w.Int64N(20))<<30, resource.BinarySI)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: csiDriver, VolumeHandle: name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	if claim != "" {
		volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespaces[0], Name: claim, UID: types.UID(claim)}
		volume.Status.Phase = corev1.VolumeBound
	}
	requirement := corev1.NodeSelectorRequirement{Key: zone, Operator: corev1.NodeSelectorOpIn,
		Values: []string{fmt.Sprintf("zone-%d", w.IntN(3))}}
	switch of {
	case labelled:
		volume.Labels = map[string]string{pick(w.generator, []string{zone, corev1.LabelFailureDomainBetaZone}): pick(
			w.generator, []string{"", "zone-0__"}) + requirement.Values[0]}
	case inTree:
		volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: pick(w.generator,
				[]string{"aws://here/vol-" + name, name})}}
		if w.chance(30) {
			volume.Labels = map[string]string{zone: requirement.Values[0]}
		}
	case local, found, mixed:
		if of != mixed && w.chance(30) {
			volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/" + name}}
		}
		requirement.Key, requirement.Values = hostname, []string{pick(w.generator, w.nodes).Name}
		if of == found && w.chance(50) {
			requirement = corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpExists}
		}
	}
	if of != labelled && of != anywhere && (of != inTree || !w.chance(50)) {
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{requirement}},
			}}}
	}
	w.put(w.volumeIndexer(), volume)
	return name
}

// addClaim makes a claim, with a volume if its kind is bound.
func (w *world) addClaim(name string, of volumeKind) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: name, UID: types.UID(name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To(string(of)),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity((1+w.Int64N(8))<<30, resource.BinarySI),
			}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	switch of {
	case found, provisioned, mixed, own, measured, pooled:
	case selected:
		claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": pick(w.generator, w.nodes).Name}
	default:
		if of == shared && w.chance(50) {
			claim.Spec.AccessModes[0] = corev1.ReadWriteOncePod
		}
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		claim.Spec.VolumeName = w.addVolume(of, name)
		claim.Status.Phase = corev1.ClaimBound
	}
	if w.chance(98) { // otherwise, the pod must wait for it
		w.put(w.claimIndexer(), claim)
	}
}

// addVolumes gives a pod the volumes of its template's kind.
func (w *world) addVolumes(pod *corev1.Pod) {
	of := volumeKind(pod.Annotations[volumeKey])
	if of == "" {
		return
	}
	source := corev1.VolumeSource{
		AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprintf("disk-%d", w.IntN(3))}}
	if of == own {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{}}})
		w.addOwnClaim(pod)
		return
	}
	if of != disk {
		name := "claim-" + pod.Name
		if of == shared {
			name = fmt.Sprintf("shared-%d", w.IntN(4))
		}
		if _, exists, _ := w.claimIndexer().GetByKey(namespaces[0] + "/" + name); !exists {
			w.addClaim(name, of)
		}
		source = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: source})
	if of == measured && w.chance(30) || of == pooled && w.chance(30) {
		name := "second-" + pod.Name
		w.addClaim(name, pick(w.generator, []volumeKind{measured, pooled, mixed}))
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "second", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

// addOwnClaim makes the claim of a pod's ephemeral volume.
func (w *world) addOwnClaim(pod *corev1.Pod) {
	name := pod.Name + "-data"
	of := pick(w.generator, []volumeKind{provisioned, mixed, zonal, measured})
	w.addClaim(name, of)
	object, exists, _ := w.claimIndexer().GetByKey(namespaces[0] + "/" + name)
	if exists {
		claim := object.(*corev1.PersistentVolumeClaim).DeepCopy()
		claim.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
		w.put(w.claimIndexer(), claim)
	}
}

// changeStorage changes volumes.
func (w *world) changeStorage() {
	switch w.IntN(7) {
	case 5, 6:
		w.changeCapacity()
	case 3, 4:
		w.attach()
	case 0:
		w.addLimit(pick(w.generator, w.nodes).Name)
	case 1:
		w.addVolume(pick(w.generator, []volumeKind{found, mixed}), "")
	case 2: // a claim gets its volume
		claims := inOrder(w.claimIndexer())
		if len(claims) == 0 {
			return
		}
		claim := pick(w.generator, claims).(*corev1.PersistentVolumeClaim).DeepCopy()
		if claim.Spec.VolumeName == "" {
			claim.Spec.VolumeName = w.addVolume(zonal, claim.Name)
			claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
			claim.Status.Phase = corev1.ClaimBound
			w.put(w.claimIndexer(), claim)
		}
	}
}

// whim is an out-of-tree plugin that does not declare what it depends on: the names of pod and
// node.
type whim struct{}

func (whim) Name() string { return "Whim" }

func (whim) of(names ...string) uint32 {
	h := fnv.New32a()
	for _, name := range names {
		_, _ = h.Write([]byte(name))
	}
	return h.Sum32() >> 4
}

// PreFilter names nodes for some pods, skips others, and rejects a few.
func (p whim) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	switch n := p.of(pod.Name) % 20; {
	case n < 3:
		names := sets.New("node-gone")
		for _, node := range nodes {
			if p.of(node.Node().Name)%3 == n {
				names.Insert(node.Node().Name)
			}
		}
		return &fwk.PreFilterResult{NodeNames: names}, nil
	case n < 8:
		return nil, fwk.NewStatus(fwk.Skip)
	case n == 8:
		return nil, fwk.NewStatus(fwk.Unschedulable, "not today")
	}
	state.Write("Whim", whimState{})
	return nil, nil
}

func (whim) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter fails for pods that PreFilter was not called for.
func (p whim) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if n := p.of(pod.Name) % 20; n > 8 {
		if _, err := state.Read("Whim"); err != nil {
			return fwk.AsStatus(err)
		}
	}
	if p.of(pod.Name, node.Node().Name)%4 == 0 {
		return fwk.NewStatus(fwk.Unschedulable, "no")
	}
	return nil
}

// whimState has the number of nodes that PreScore was called with.
type whimState struct{ nodes int }

func (s whimState) Clone() fwk.StateData { return s }

func (p whim) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if p.of(pod.Name, "score")%5 == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write("Whims", whimState{len(nodes)})
	return nil
}

func (p whim) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read("Whims")
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return int64(p.of(node.Node().Name, pod.Name)%7) + int64(data.(whimState).nodes), nil
}

func (p whim) ScoreExtensions() fwk.ScoreExtensions { return p }

func (whim) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	for i := range scores {
		scores[i].Score = min(fwk.MaxScore, scores[i].Score-int64(len(scores)/2))
	}
	return nil
}
