// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podChanged checks a change of a pod, and lets the kubelet of its node act.
func (w *World) podChanged(before, after *corev1.Pod) {
	if before != nil {
		w.checkEviction(before, after)
	}
	w.memberChanged(before, after)
	w.podUsesClaims(before, after)
	w.podUsesVolumes(before, after)
	if before != nil && after != nil {
		w.podResized(before, after)
	}
	if after == nil {
		w.log.add("pod %s on node %q is gone", before.Name, before.Spec.NodeName)
		w.checkBudgets(before)
		if w.cluster.again[before.UID] && before.Spec.SchedulerName != otherScheduler {
			w.after(w.kubeletDelay(), func() { w.createAgain(before) })
		}
		delete(w.cluster.again, before.UID)
		return
	}
	w.checkBudgets(after)
	switch {
	case after.Spec.NodeName == "":
	case before == nil || before.Spec.NodeName == "":
		w.counts["bound"]++
		w.log.add("pod %s is bound to %s", after.Name, after.Spec.NodeName)
		if w.cluster.foreign[after.UID] {
			w.counts["bound by others"]++
			w.cluster.filled[after.Spec.NodeName] = time.Now()
		} else {
			w.checkBinding(after)
			w.checkClaims(after)
			w.checkVolumes(after)
		}
		if w.nodeOf(after) == nil {
			w.after(20*time.Second, func() { w.collectOrphan(after) })
			return
		}
		w.after(w.kubeletDelay(), func() { w.runPod(after) })
	}
	// A restore of etcd may put an earlier pod in place of one that is ending.
	if after.DeletionTimestamp != nil &&
		(before == nil || before.UID != after.UID || before.DeletionTimestamp == nil) {
		w.endPodLater(after)
		if after.Spec.NodeName != "" {
			w.restoreIfAimed(aimBeforeDeletion, w.cluster.revision-1)
		}
	}
}

// endPodLater removes a pod that is being deleted, as its kubelet does, which tries until it is
// gone, unless a restore of etcd undoes the deletion: then the pod runs on.
func (w *World) endPodLater(pod *corev1.Pod) {
	delay := w.kubeletDelay()
	if w.kubelets.IntN(6) == 0 { // it takes its time to end
		delay += time.Duration(w.kubelets.Int64N(int64(30 * time.Second)))
	}
	ends := func() bool {
		now := w.cluster.pods["/registry/pods/"+pod.Namespace+"/"+pod.Name]
		return now != nil && now.UID == pod.UID && now.DeletionTimestamp != nil
	}
	w.after(delay, func() {
		if !ends() {
			return
		}
		w.must(w.cluster.objects.Delete(w.ctx, pod, client.GracePeriodSeconds(0),
			client.Preconditions{UID: &pod.UID}))
		w.after(w.kubeletDelay(), func() {
			if ends() {
				w.counts["kubelets that try again"]++
				w.endPodLater(pod)
			}
		})
	})
}

func (w *World) kubeletDelay() time.Duration {
	return time.Duration(w.kubelets.ExpFloat64() * float64(2*time.Second))
}

// runPod makes a pod run, as a kubelet does.
func (w *World) runPod(pod *corev1.Pod) {
	patch := client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":"Running"}}`, pod.UID))
	w.patchStatus(pod, patch)
}

// patchStatus changes the status of a pod, unless there is another pod of the name: then the patch
// is invalid.
func (w *World) patchStatus(pod *corev1.Pod, patch client.Patch) {
	err := w.cluster.objects.Status().Patch(w.ctx, pod.DeepCopy(), patch)
	if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		w.must(err)
	}
}
