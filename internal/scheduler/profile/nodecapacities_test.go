// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	fakeclient "k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
)

// TestTheBinderListsTheCapacityOfTheNodeOnly has an object that reports the capacity of each node.
// Every other node has room for the claim. The binder looks at all of them at the same time, for a
// pod with the claim and for one with another, whose driver does not report its capacity.
func TestTheBinderListsTheCapacityOfTheNodeOnly(t *testing.T) {
	const nodes = 100
	factory := informers.NewSharedInformerFactory(fakeclient.NewClientset(), 0)
	core, storage := factory.Core().V1(), factory.Storage().V1()
	binder, err := newPodBinder(logr.Discard(), nil, core, storage, newClaimChanges(), &assumedVolumes{})
	must(t, err)
	for name, reports := range map[string]bool{"reporting": true, "silent": false} {
		must(t, storage.StorageClasses().Informer().GetIndexer().Add(&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: name,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}))
		must(t, storage.CSIDrivers().Informer().GetIndexer().Add(&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &reports}}))
		claim := objects.ClaimOf(name, name)
		claim.Namespace = namespace
		must(t, core.PersistentVolumeClaims().Informer().GetIndexer().Add(claim))
	}
	node := func(i int) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i),
			Labels: map[string]string{corev1.LabelHostname: fmt.Sprint(i)}}}
	}
	for i := range nodes {
		must(t, storage.CSIStorageCapacities().Informer().GetIndexer().Add(&storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}, StorageClassName: "reporting",
			Capacity:     ptr.To(resource.MustParse(fmt.Sprintf("%dGi", i%2))),
			NodeTopology: &metav1.LabelSelector{MatchLabels: node(i).Labels}}))
	}
	looks := sync.WaitGroup{}
	for claim, reports := range map[string]bool{"reporting": true, "silent": false} {
		pod := claimant(claim)
		claims, err := binder.GetPodVolumeClaims(logr.Discard(), pod)
		must(t, err)
		for i := range nodes {
			looks.Go(func() {
				_, reasons, err := binder.FindPodVolumes(logr.Discard(), pod, claims, node(i))
				if fits := len(reasons) == 0; err != nil || fits != (!reports || i%2 == 1) {
					t.Errorf("node %d, claim %s: %v, %v", i, claim, reasons, err)
				}
			})
		}
	}
	looks.Wait()
	lister := binder.capacities.Lister()
	binder.capacities.see(node(7).Labels, func() {
		listed, err := lister.List(labels.Everything())
		must(t, err)
		if len(listed) != 1 || listed[0].Name != "7" {
			t.Errorf("%d objects are listed", len(listed))
		}
	})
	binder.capacities.seeAll(func() {
		listed, err := lister.List(labels.Everything())
		must(t, err)
		if len(listed) != nodes {
			t.Errorf("%d objects are listed", len(listed))
		}
	})
}
