// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumes are the volumes of the pods of an operation: a claim for each pod, bound to a volume.
type volumes struct {
	claim  corev1.PersistentVolumeClaim
	volume corev1.PersistentVolume
}

// volumes returns nil if the pods have none.
func (o *createPods) volumes(e *executor) (*volumes, error) {
	if o.PersistentVolumeClaimTemplatePath == nil {
		return nil, nil
	}
	if o.PersistentVolumeTemplatePath == nil {
		return nil, errors.New("persistentVolumeClaimTemplatePath needs persistentVolumeTemplatePath")
	}
	v := &volumes{}
	return v, errors.Join(e.templates.plain(*o.PersistentVolumeClaimTemplatePath, &v.claim),
		e.templates.plain(*o.PersistentVolumeTemplatePath, &v.volume))
}

// create creates the claim and the volume of the i-th pod of a namespace, and makes the pod use
// them. Creation drops statuses, so they are written afterwards.
func (v *volumes) create(ctx context.Context, e *executor, namespace string, i int, pod *corev1.Pod) error {
	claim, volume := v.claim.DeepCopy(), v.volume.DeepCopy()
	claim.Name = fmt.Sprintf("pvc-%d", i)
	volume.Name = fmt.Sprintf("%s-vol-%d", namespace, i)
	switch source := volume.Spec.PersistentVolumeSource; {
	case source.CSI != nil:
		source.CSI.VolumeHandle = volume.Name
	case source.AWSElasticBlockStore != nil:
		source.AWSElasticBlockStore.VolumeID = fmt.Sprintf("vol-%d", i)
	}
	volume.Spec.ClaimRef = &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: claim.Name,
	}
	volume.Status.Phase = corev1.VolumeBound
	claim.Spec.VolumeName = volume.Name
	claim.Status.Phase = corev1.ClaimBound

	claims, all := e.client.CoreV1().PersistentVolumeClaims(namespace), e.client.CoreV1().PersistentVolumes()
	for _, write := range []func() error{
		func() error { _, err := claims.Create(ctx, claim.DeepCopy(), metav1.CreateOptions{}); return err },
		func() error { _, err := claims.UpdateStatus(ctx, claim.DeepCopy(), metav1.UpdateOptions{}); return err },
		func() error { _, err := all.Create(ctx, volume.DeepCopy(), metav1.CreateOptions{}); return err },
		func() error { _, err := all.UpdateStatus(ctx, volume.DeepCopy(), metav1.UpdateOptions{}); return err },
	} {
		if err := retry(ctx, write); err != nil {
			return err
		}
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "vol", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}}}
	return nil
}
