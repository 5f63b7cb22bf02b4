// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// binderClient is the client of the volume binder. It copies the volumes and claims that it sends.
// A client writes into the objects that it is given: while it encodes them, it sets their kind. The
// binder gives it the objects in its caches, which decisions about other pods with the same claims
// read.
type binderClient struct{ clientset.Interface }

// CoreV1 implements [clientset.Interface].
func (b binderClient) CoreV1() corev1client.CoreV1Interface {
	return binderCoreV1{b.Interface.CoreV1()}
}

type binderCoreV1 struct{ corev1client.CoreV1Interface }

func (b binderCoreV1) PersistentVolumes() corev1client.PersistentVolumeInterface {
	return binderVolumes{b.CoreV1Interface.PersistentVolumes()}
}

func (b binderCoreV1) PersistentVolumeClaims(namespace string) corev1client.PersistentVolumeClaimInterface {
	return binderClaims{b.CoreV1Interface.PersistentVolumeClaims(namespace)}
}

type binderVolumes struct {
	corev1client.PersistentVolumeInterface
}

func (b binderVolumes) Update(ctx context.Context, volume *corev1.PersistentVolume,
	o metav1.UpdateOptions) (*corev1.PersistentVolume, error) {
	return b.PersistentVolumeInterface.Update(ctx, volume.DeepCopy(), o)
}

type binderClaims struct {
	corev1client.PersistentVolumeClaimInterface
}

func (b binderClaims) Update(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	o metav1.UpdateOptions) (*corev1.PersistentVolumeClaim, error) {
	return b.PersistentVolumeClaimInterface.Update(ctx, claim.DeepCopy(), o)
}
