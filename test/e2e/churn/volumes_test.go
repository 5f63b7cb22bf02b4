// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// claims is the number of claim names that pods use. Some of them have a claim, and some of these a
// volume. There is no volume controller: actors bind volumes.
const claims = 8

func claimName(i int) string { return fmt.Sprintf("claim-%d", i) }

var volumeActs = []act{
	{"volumes", 500 * time.Millisecond, changeVolume},
	{"late claims", 400 * time.Millisecond, changeLateClaim},
	{"disks", 300 * time.Millisecond, changeDisk},
	{"device claims", 300 * time.Millisecond, changeDeviceClaim},
	{"devices", 2 * time.Second, changeSlice},
}

// changeVolume takes the next step with a claim: it creates it, binds it to a volume in some zone,
// or deletes it.
func changeVolume(ctx context.Context, a *actor) error {
	i := a.rng.IntN(claims)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault,
		Name: claimName(i)}}
	err := a.client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err != nil:
		return a.did("claims created",
			a.client.Create(ctx, newClaim(claim.Name, one(a, corev1.ReadWriteMany, corev1.ReadWriteOncePod))))
	case claim.DeletionTimestamp != nil:
		claim.Finalizers = nil // no controller does
		return raced(a.client.Update(ctx, claim))
	case claim.Status.Phase != corev1.ClaimBound && claim.Spec.VolumeName != "":
		// The API server ended between the two writes of completeClaim.
		return a.did("claims bound", a.completeClaim(ctx, claim, claim.Spec.VolumeName))
	case claim.Status.Phase != corev1.ClaimBound:
		return a.did("claims bound", a.bindClaim(ctx, claim))
	case a.chance(30):
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		if err := a.did("claims deleted", a.client.Delete(ctx, claim)); err != nil {
			return err
		}
		return a.unmake(ctx, volume)
	}
	return nil
}

// unmake deletes a protected volume.
func (a *actor) unmake(ctx context.Context, volume *corev1.PersistentVolume) error {
	if err := raced(a.client.Delete(ctx, volume)); err != nil {
		return err
	}
	return raced(change(ctx, a, volume, func(v *corev1.PersistentVolume) { v.Finalizers = nil }))
}

func newClaim(name string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{mode},
			StorageClassName: ptr.To(""),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// bindClaim does what the volume controller would do.
func (a *actor) bindClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("volume-%d", a.rng.Uint32())},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            claim.Spec.AccessModes,
			Capacity:               claim.Spec.Resources.Requests,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
				Name: claim.Name, UID: claim.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn,
							Values: []string{one(a, "a", "b", "c")}}},
				}}}},
		},
	}
	if err := a.client.Create(ctx, volume); err != nil {
		return err
	}
	return a.completeClaim(ctx, claim, volume.Name)
}
