// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clientset "k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	volumemetrics "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding/metrics"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// provisioner waits for volumes that are created for the claims of a pod.
//
// Upstream's binder writes the node of the pod into the claims, and then looks once a second
// whether they have volumes, for the first time after a second. provisioner looks when a claim or
// its volume changes.
type provisioner struct {
	client clientset.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	claims corelisters.PersistentVolumeClaimLister
	// changes are those of claims and volumes that the binder has seen.
	changes *claimChanges
	// volumes has the index fastpath.VolumeIndexers.
	volumes toolscache.Indexer
	// lookEvery is how often the provisioner looks without a change: of the pod and of the node.
	lookEvery time.Duration
}

// onlyProvisions reports whether volumes have to be created for all claims of the pod that have
// none.
func onlyProvisions(volumes *volumebinding.PodVolumes) bool {
	return volumes != nil && len(volumes.StaticBindings) == 0 && len(volumes.DynamicProvisions) > 0
}

// bind makes the controllers create volumes, and waits until the claims are bound to them. As in
// upstream's BindPodVolumes, it fails if the pod or the node is gone, or if a volume cannot be
// created, or cannot be used on the node.
func (p *provisioner) bind(ctx context.Context, binder volumebinding.SchedulerVolumeBinder, pod *corev1.Pod,
	volumes *volumebinding.PodVolumes) (err error) {
	defer func() {
		if err != nil {
			volumemetrics.VolumeSchedulingStageFailed.WithLabelValues("bind").Inc()
		}
	}()
	written := make([]*corev1.PersistentVolumeClaim, 0, len(volumes.DynamicProvisions))
	for _, provision := range volumes.DynamicProvisions {
		written = append(written, provision.PVC)
	}
	changed, stop := p.changes.watch(pod)
	defer stop()
	for i, claim := range written {
		written[i], err = p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim,
			metav1.UpdateOptions{})
		if err != nil {
			return err
		}
	}
	lost := lostWrites{provisioner: p, pod: pod}
	ticker, forgotten := time.NewTicker(p.lookEvery), time.NewTicker(forgottenAfter)
	defer ticker.Stop()
	defer forgotten.Stop()
	for {
		done, err := p.look(ctx, binder, pod, written)
		switch {
		case err != nil:
			return fmt.Errorf("binding volumes: %w", err)
		case done:
			return nil
		}
		select {
		case <-changed:
		case <-ticker.C:
		case <-forgotten.C:
			if err := lost.look(); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("binding volumes: %w", context.Cause(ctx))
		}
	}
}

// forgottenAfter is how long informers may take until they have what was written for a pod.
const forgottenAfter = time.Minute

// lostWrites finds out, with a look every forgottenAfter, whether what was written for the claims
// of a pod is lost: it is if two looks in a row do not find it. One goroutine uses it.
type lostWrites struct {
	*provisioner
	pod  *corev1.Pod
	last error // of the last look
}

// look returns an error if it is lost.
func (l *lostWrites) look() error {
	before := l.last
	if l.last = l.checkForgotten(l.pod); before == nil {
		return nil
	}
	return l.last
}

// checkForgotten returns an error if nothing leads to a volume for a claim of the pod: neither does
// the claim name the node, nor a volume the claim. Both were written, and are lost if etcd was
// restored from a backup. Otherwise the pod would wait until its timeout has passed.
func (p *provisioner) checkForgotten(pod *corev1.Pod) error {
	for name := range podfields.VolumeClaimNames(pod) {
		claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			continue // look returns that
		}
		if claim.Spec.VolumeName == "" && claim.Annotations[storagehelpers.AnnSelectedNode] != pod.Spec.NodeName &&
			!fastpath.IsClaimed(p.volumes, claim.UID) {
			return fmt.Errorf("binding volumes: the API server has forgotten the volume or the node of claim %s",
				klog.KObj(claim))
		}
	}
	return nil
}

// look reports whether all claims have their volumes, and these can be used on the node of the pod.
func (p *provisioner) look(ctx context.Context, binder volumebinding.SchedulerVolumeBinder, pod *corev1.Pod,
	written []*corev1.PersistentVolumeClaim) (done bool, err error) {
	if _, err := p.pods.Pods(pod.Namespace).Get(pod.Name); apierrors.IsNotFound(err) {
		return false, fmt.Errorf("pod does not exist any more: %w", err)
	}
	node, err := p.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		return false, fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err)
	}
	for _, claim := range written {
		if bound, err := p.isBound(claim, node.Name); !bound || err != nil {
			return false, err
		}
	}
	// Nothing keeps a claim that is deleted before its pod has a node.
	for name := range podfields.VolumeClaimNames(pod) {
		if _, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(name); err != nil {
			return false, err
		}
	}
	logger := klog.FromContext(ctx)
	// The binder may not have seen the volumes yet, in which case it judges the claims as before.
	claims, err := binder.GetPodVolumeClaims(logger, pod)
	if err != nil {
		logger.V(4).Info("Looking at the claims of the pod again", "pod", klog.KObj(pod), "err", err)
		return false, nil
	}
	found, reasons, err := binder.FindPodVolumes(logger, pod, claims, node)
	if err != nil {
		logger.V(4).Info("Looking at the volumes of the pod again", "pod", klog.KObj(pod), "err", err)
		return false, nil
	}
	if slices.Contains(reasons, volumebinding.ErrReasonNodeConflict) {
		return false, fmt.Errorf("a volume cannot be used on node %q: %s", node.Name,
			volumebinding.ErrReasonNodeConflict)
	}
	return len(reasons) == 0 && len(found.StaticBindings) == 0 && len(found.DynamicProvisions) == 0, nil
}

// isBound reports whether a claim is bound. It fails if the controllers have given up.
func (p *provisioner) isBound(written *corev1.PersistentVolumeClaim, node string) (bool, error) {
	claim, err := p.claims.PersistentVolumeClaims(written.Namespace).Get(written.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check provisioning pvc: %w", err)
	}
	order, err := resourceversion.CompareResourceVersion(claim.ResourceVersion, written.ResourceVersion)
	if err != nil || order < 0 {
		return false, err
	}
	if claim.Annotations[storagehelpers.AnnSelectedNode] != node {
		return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
	}
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted), nil
}
