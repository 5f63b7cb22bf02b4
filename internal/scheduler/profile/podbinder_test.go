// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
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
	"k8s.io/utils/ptr"
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

func (c countedCore) PersistentVolumes() coreinformers.TypedPersistentVolumeInformer { return c.counted }

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
	binder, err := newPodBinder(logr.Discard(), nil, countedCore{core, counted}, storage, newClaimChanges())
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
