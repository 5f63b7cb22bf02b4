// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Claims of two storage classes wait for their first consumer. Claims of diskClass get one of the
// disks, each of which is on one node. For claims of provisionedClass, a volume is made in the zone
// of the node that livesched has selected. volumeController binds both.
const (
	diskClass        = "churn-disk"
	provisionedClass = "churn-provisioned"
	lateClaims       = 8
)

func lateClaimName(i int) string { return fmt.Sprintf("late-%d", i) }

func storageClasses() []client.Object {
	class := func(name, provisioner string) client.Object {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}
	}
	return []client.Object{class(diskClass, volume.NotSupportedProvisioner),
		class(provisionedClass, "churn.example/disks")}
}

func isLate(class string) bool { return class == diskClass || class == provisionedClass }

// changeLateClaim creates a claim that waits for its first consumer, or deletes one.
func changeLateClaim(ctx context.Context, a *actor) error {
	name := lateClaimName(a.rng.IntN(lateClaims))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault,
		Name: name}}
	err := a.client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err != nil:
		claim = newClaim(name, corev1.ReadWriteMany)
		claim.Spec.StorageClassName = ptr.To(one(a, diskClass, provisionedClass))
		return a.did("late claims created", a.client.Create(ctx, claim))
	case claim.DeletionTimestamp == nil && a.chance(20):
		return a.did("late claims deleted", a.client.Delete(ctx, claim))
	}
	return nil
}

// changeDisk creates the disk of a node, or makes an unused one available or deletes it.
func changeDisk(ctx context.Context, a *actor) error {
	node := one(a, nodeNames...)
	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-" + node}}
	err := a.client.Get(ctx, client.ObjectKeyFromObject(disk), disk)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err != nil:
		disk = newVolume(disk.Name, diskClass, corev1.LabelHostname, node)
		return a.did("disks created", a.client.Create(ctx, disk))
	case disk.DeletionTimestamp != nil || disk.Spec.ClaimRef != nil:
		return nil
	case disk.Status.Phase != corev1.VolumeAvailable:
		disk.Status.Phase = corev1.VolumeAvailable
		return a.did("disks available", a.client.Status().Update(ctx, disk))
	case a.chance(10):
		return a.did("disks deleted", a.unmake(ctx, disk))
	}
	return nil
}

// newVolume returns a volume for nodes with a label.
func newVolume(name, class, key, value string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			StorageClassName:       class,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
				}}}},
		},
	}
}

// volumeController completes what livesched begins with late claims, deletes volumes whose claim is
// gone, and completes deletions. It acts all the time: livesched waits for it in PreBind.
var volumeController = act{"volume controller", 300 * time.Millisecond, func(ctx context.Context, a *actor) error {
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	// Claims of volumes that are listed later exist no longer if they are not in the later list.
	if err := a.client.List(ctx, &volumes); err != nil {
		return err
	}
	if err := a.client.List(ctx, &claims); err != nil {
		return err
	}
	nodes, err := a.nodes(ctx)
	if err != nil {
		return err
	}
	unbound := map[string]*corev1.PersistentVolumeClaim{}
	existing := map[string]bool{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		existing[string(claim.UID)] = true
		switch {
		case !isLate(ptr.Deref(claim.Spec.StorageClassName, "")):
		case claim.DeletionTimestamp != nil:
			claim.Finalizers = nil
			if err := raced(a.client.Update(ctx, claim)); err != nil {
				return err
			}
		case claim.Status.Phase != corev1.ClaimBound:
			unbound[string(claim.UID)] = claim
		}
	}
	for i := range volumes.Items {
		v := &volumes.Items[i]
		if !isLate(v.Spec.StorageClassName) || v.Spec.ClaimRef == nil && v.DeletionTimestamp == nil {
			continue
		}
		// livesched may have given a claim a volume that is being deleted.
		uid := ""
		if v.DeletionTimestamp == nil {
			uid = string(v.Spec.ClaimRef.UID)
		}
		if !existing[uid] {
			if err := a.did("volumes released", a.unmake(ctx, v)); err != nil {
				return err
			}
		} else if claim := unbound[uid]; claim != nil {
			delete(unbound, uid)
			if err := a.did("late claims bound", a.completeClaim(ctx, claim, v.Name)); err != nil {
				return err
			}
		}
	}
	for _, claim := range unbound {
		if err := a.provision(ctx, claim, nodes); err != nil {
			return err
		}
	}
	return nil
}}

// provision makes a volume for a claim whose node livesched has selected, or reports that it
// cannot.
func (a *actor) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	nodes map[string]*corev1.Node) error {
	selected := claim.Annotations[volume.AnnSelectedNode]
	if selected == "" {
		return nil
	}
	node := nodes[selected]
	if node == nil || a.script.wild.Load() && a.chance(15) {
		delete(claim.Annotations, volume.AnnSelectedNode)
		return a.did("volumes not provisioned", a.client.Update(ctx, claim))
	}
	v := newVolume("provisioned-"+string(claim.UID), provisionedClass, corev1.LabelTopologyZone,
		node.Labels[corev1.LabelTopologyZone])
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
		Name: claim.Name, UID: claim.UID}
	return a.did("volumes provisioned", a.client.Create(ctx, v))
}

// unfinished describes the claims that livesched may wait for in PreBind.
func (w *world) unfinished(ctx context.Context) string {
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	if err := errors.Join(w.client.List(ctx, &claims), w.client.List(ctx, &volumes)); err != nil {
		return err.Error()
	}
	var lines []string
	for _, c := range claims.Items {
		if c.Status.Phase == corev1.ClaimBound {
			continue
		}
		line := fmt.Sprintf("claim %s of class %s, version %s, selected node %q", c.Name, *c.Spec.StorageClassName,
			c.ResourceVersion, c.Annotations[volume.AnnSelectedNode])
		for _, v := range volumes.Items {
			if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == c.UID {
				line += fmt.Sprintf(", volume %s, version %s, deleted %v", v.Name, v.ResourceVersion,
					v.DeletionTimestamp)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// completeClaim writes into a claim that it is bound to a volume.
func (a *actor) completeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, volumeName string) error {
	claim.Spec.VolumeName = volumeName
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	if err := a.client.Update(ctx, claim); err != nil {
		return err
	}
	claim.Status.Phase = corev1.ClaimBound
	return a.client.Status().Update(ctx, claim)
}
