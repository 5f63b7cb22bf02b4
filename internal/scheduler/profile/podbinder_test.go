// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
)

// countedVolumes counts the volumes that are listed by an index.
type countedVolumes struct {
	coreinformers.TypedPersistentVolumeInformer
	listed int
}

// countedCore has countedVolumes.
type countedCore struct {
	coreinformers.Interface
	counted *countedVolumes
}

func (c countedCore) PersistentVolumes() coreinformers.TypedPersistentVolumeInformer {
	return c.counted
}

func (c *countedVolumes) Informer() toolscache.SharedIndexInformer {
	return countedInformer{c.TypedPersistentVolumeInformer.Informer(), c}
}

type countedInformer struct {
	toolscache.SharedIndexInformer
	of *countedVolumes
}

func (i countedInformer) GetIndexer() toolscache.Indexer {
	return countedIndexer{i.SharedIndexInformer.GetIndexer(), i.of}
}

type countedIndexer struct {
	toolscache.Indexer
	of *countedVolumes
}

func (i countedIndexer) ByIndex(name, value string) ([]any, error) {
	objects, err := i.Indexer.ByIndex(name, value)
	i.of.listed += len(objects)
	return objects, err
}

// TestTheBinderListsTheVolumesOfThePodOnly has a class with many volumes of other claims.
func TestTheBinderListsTheVolumesOfThePodOnly(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fakeclient.NewClientset(), 0)
	core, storage := factory.Core().V1(), factory.Storage().V1()
	counted := &countedVolumes{TypedPersistentVolumeInformer: core.PersistentVolumes()}
	binder, err := newPodBinder(logr.Discard(), nil, countedCore{core, counted}, storage, newClaimChanges(),
		&assumedVolumes{})
	must(t, err)

	must(t, storage.StorageClasses().Informer().GetIndexer().Add(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class"}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}))
	must(t, core.PersistentVolumeClaims().Informer().GetIndexer().Add(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "claim", UID: "own"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("class")},
	}))
	add := func(name, claim string) {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{StorageClassName: "class"}}
		if claim != "" {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: "claim", UID: types.UID(claim)}
		}
		must(t, core.PersistentVolumes().Informer().GetIndexer().Add(pv))
	}
	for i := range 1000 {
		add(fmt.Sprint(i), fmt.Sprint("other-", i))
	}
	fits := func() bool {
		t.Helper()
		pod := claimant("claim")
		claims, err := binder.GetPodVolumeClaims(logr.Discard(), pod)
		must(t, err)
		_, reasons, err := binder.FindPodVolumes(logr.Discard(), pod, claims, &corev1.Node{})
		must(t, err)
		return len(reasons) == 0
	}
	if fits() {
		t.Error("the claim is bound to the volume of another")
	}
	add("prebound", "own")
	if !fits() {
		t.Error("the claim is not bound to its volume")
	}
	if counted.listed != 1 {
		t.Errorf("%d volumes were listed, want one", counted.listed)
	}
}

// TestTheBinderLooksAtTheVolumesOfTheNodeOnly has a class with a local volume on each node, half of
// which are too small.
func TestTheBinderLooksAtTheVolumesOfTheNodeOnly(t *testing.T) {
	const nodes = 100
	factory := informers.NewSharedInformerFactory(fakeclient.NewClientset(), 0)
	core, storage := factory.Core().V1(), factory.Storage().V1()
	counted := &countedVolumes{TypedPersistentVolumeInformer: core.PersistentVolumes()}
	binder, err := newPodBinder(logr.Discard(), nil, countedCore{core, counted}, storage, newClaimChanges(),
		&assumedVolumes{})
	must(t, err)
	must(t, storage.StorageClasses().Informer().GetIndexer().Add(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class"}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}))
	claim := objects.ClaimOf("claim", "class")
	claim.Namespace, claim.UID = namespace, "own"
	must(t, core.PersistentVolumeClaims().Informer().GetIndexer().Add(claim))
	for i := range nodes {
		pv := objects.VolumeOn(fmt.Sprint(i), "class", fmt.Sprint(i))
		pv.Status.Phase = corev1.VolumeAvailable
		if i%2 == 0 {
			pv.Spec.Capacity = nil
		}
		must(t, core.PersistentVolumes().Informer().GetIndexer().Add(pv))
	}
	pod := claimant("claim")
	claims, err := binder.GetPodVolumeClaims(logr.Discard(), pod)
	must(t, err)
	look := func(i int) (*volumebinding.PodVolumes, error) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i),
			Labels: map[string]string{corev1.LabelHostname: fmt.Sprint(i)}}}
		found, reasons, err := binder.FindPodVolumes(logr.Discard(), pod, claims, node)
		if fits := len(reasons) == 0; err == nil && fits != (i%2 == 1) {
			t.Errorf("node %d: %v", i, reasons)
		}
		return found, err
	}
	for i := range nodes {
		found, err := look(i)
		must(t, err)
		if i%2 == 1 && len(found.StaticBindings) != 1 {
			t.Errorf("node %d: %d volumes are found", i, len(found.StaticBindings))
		}
	}
	if counted.listed > nodes {
		t.Errorf("%d volumes were listed for %d nodes", counted.listed, nodes)
	}

	// A volume that is assumed for another claim is none for this one.
	other := claim.DeepCopy()
	other.Name, other.UID = "other", "other"
	must(t, core.PersistentVolumeClaims().Informer().GetIndexer().Add(other))
	found, err := look(7)
	must(t, err)
	pod2 := claimant("other")
	claims2, err := binder.GetPodVolumeClaims(logr.Discard(), pod2)
	must(t, err)
	found2, reasons, err := binder.FindPodVolumes(logr.Discard(), pod2, claims2, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "7", Labels: map[string]string{corev1.LabelHostname: "7"}}})
	if err != nil || len(reasons) > 0 || len(found2.StaticBindings) != 1 {
		t.Fatalf("the other claim finds no volume: %v, %v", reasons, err)
	}
	_, err = binder.AssumePodVolumes(logr.Discard(), pod2, "7", found2)
	must(t, err)
	node7 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "7",
		Labels: map[string]string{corev1.LabelHostname: "7"}}}
	if _, reasons, err = binder.FindPodVolumes(logr.Discard(), pod, claims, node7); err != nil || len(reasons) == 0 {
		t.Errorf("a volume that another claim has is found (%v)", err)
	}
	binder.RevertAssumedPodVolumes(found2)
	if again, err := look(7); err != nil || len(again.StaticBindings) != len(found.StaticBindings) {
		t.Errorf("the volume is not free again (%v)", err)
	}

	// The PV controller begins to bind the claim after PreFilter.
	bound := claim.DeepCopy()
	bound.Spec.VolumeName = "3"
	second := other.DeepCopy()
	pod.Spec.Volumes = append(pod.Spec.Volumes, pod2.Spec.Volumes...)
	must(t, core.PersistentVolumeClaims().Informer().GetIndexer().Update(second))
	must(t, core.PersistentVolumeClaims().Informer().GetIndexer().Update(bound))
	if _, err := look(3); !errors.Is(err, errClaimsChange) {
		t.Errorf("got %v", err)
	}
}

// TestAClaimOfTwoPodsGetsOneVolume has a claim that two pods use. The volume of another node, which
// is assumed for it, is the only one that the second pod can use.
func TestAClaimOfTwoPodsGetsOneVolume(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fakeclient.NewClientset(), 0)
	core, storage := factory.Core().V1(), factory.Storage().V1()
	assumed := &assumedVolumes{}
	upstream, err := newPodBinder(logr.Discard(), nil, core, storage, newClaimChanges(), assumed)
	must(t, err)
	binder := &boundedBinder{SchedulerVolumeBinder: upstream, assumed: assumed}
	must(t, storage.StorageClasses().Informer().GetIndexer().Add(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class"}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}))
	for _, name := range []string{"shared", "other"} {
		claim := objects.ClaimOf(name, "class")
		claim.Namespace, claim.UID = namespace, types.UID(name)
		must(t, core.PersistentVolumeClaims().Informer().GetIndexer().Add(claim))
	}
	for _, node := range []string{"n1", "n2"} {
		pv := objects.VolumeOn("on-"+node, "class", node)
		pv.Status.Phase = corev1.VolumeAvailable
		must(t, core.PersistentVolumes().Informer().GetIndexer().Add(pv))
	}
	find := func(pod *corev1.Pod, node string) (*volumebinding.PodVolumes, bool) {
		t.Helper()
		claims, err := binder.GetPodVolumeClaims(logr.Discard(), pod)
		must(t, err)
		found, reasons, err := binder.FindPodVolumes(logr.Discard(), pod, claims, objects.NodeOf(node,
			corev1.LabelHostname, node))
		must(t, err)
		return found, len(reasons) == 0
	}
	first, second, other := claimant("shared"), claimant("shared"), claimant("other")
	volumes, fits := find(first, "n1")
	if _, fitsToo := find(second, "n2"); !fits || !fitsToo {
		t.Fatalf("the first pod fits: %v, the second: %v", fits, fitsToo)
	}
	if _, err := binder.AssumePodVolumes(logr.Discard(), first, "n1", volumes); err != nil {
		t.Fatal(err)
	}
	volumesToo, fits := find(second, "n1")
	if !fits {
		t.Error("the second pod cannot use the volume of the first one")
	}
	if _, fits := find(second, "n2"); fits {
		t.Error("the claim of the first pod gets a second volume")
	}
	if _, fits := find(other, "n2"); !fits {
		t.Error("a pod with another claim cannot use the other volume")
	}
	if _, err := binder.AssumePodVolumes(logr.Discard(), second, "n1", volumesToo); err != nil {
		t.Fatal(err)
	}
	binder.RevertAssumedPodVolumes(volumesToo)
	if _, fits := find(second, "n2"); fits {
		t.Error("the claim of the first pod gets a second volume after the second pod has given up")
	}
	binder.RevertAssumedPodVolumes(volumes)
	if _, fits := find(second, "n2"); !fits {
		t.Error("the pods cannot use the other volume after both have given up")
	}
	if len(assumed.pods) > 0 {
		t.Errorf("claims still have assumed volumes: %v", assumed.pods)
	}
}
