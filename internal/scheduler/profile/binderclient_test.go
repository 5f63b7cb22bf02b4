// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestTheVolumeBinderSendsCopiesOfTheObjectsInItsCaches(t *testing.T) {
	client := kubefake.NewClientset()
	var sent runtime.Object
	client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent = action.(clienttesting.UpdateAction).GetObject()
		return true, sent, nil
	})
	core := binderClient{client}.CoreV1()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume"}}
	if _, err := core.PersistentVolumes().Update(t.Context(), volume, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, ok := sent.(*corev1.PersistentVolume); !ok || got == volume || got.Name != volume.Name {
		t.Errorf("sent %T %p, the cache has %p", sent, got, volume)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"}}
	if _, err := core.PersistentVolumeClaims("default").Update(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, ok := sent.(*corev1.PersistentVolumeClaim); !ok || got == claim || got.Name != claim.Name {
		t.Errorf("sent %T %p, the cache has %p", sent, got, claim)
	}
}
