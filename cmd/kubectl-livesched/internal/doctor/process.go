// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/lease"
)

// pods returns the pods of livesched, as config/manager labels them.
func (e *examination) pods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := e.Client.List(ctx, &pods, client.InNamespace(e.Namespace),
		client.MatchingLabels{"app.kubernetes.io/name": "livesched"})
	return pods.Items, err
}

// replicas checks the pods of livesched.
func (e *examination) replicas(ctx context.Context) {
	pods, err := e.pods(ctx)
	if err != nil {
		e.unreadable(e.clientPermits(), "pods in namespace "+e.Namespace, err)
		return
	}
	images, ready := sets.New[string](), 0
	for i := range pods {
		pod := &pods[i]
		for _, container := range pod.Spec.Containers {
			images.Insert(container.Image)
		}
		if podutil.IsPodReady(pod) {
			ready++
		} else {
			e.add(Failed, fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name),
				"the replica %s is not ready", pod.Name)
		}
	}
	switch {
	case len(pods) == 0:
		e.add(Warning, "name the namespace with --livesched-namespace; without a Deployment, see that the process runs",
			"there are no pods with the label app.kubernetes.io/name=livesched in namespace %s", e.Namespace)
	case len(pods) == 1:
		e.add(Warning, "scale the Deployment to 2 replicas",
			"there is one replica: no other takes over while it restarts")
	case ready == len(pods):
		e.add(OK, "", "%d replicas are ready", ready)
	}
	if images.Len() > 1 {
		e.add(Warning, "finish the update: kubectl -n "+e.Namespace+" rollout status deployment/livesched",
			"the replicas run different images: %s", strings.Join(sets.List(images), ", "))
	}
}

// leader checks that a replica holds the Lease and renews it.
func (e *examination) leader(ctx context.Context) {
	var held coordinationv1.Lease
	name := e.Namespace + "/" + e.Lease
	switch err := e.Client.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Lease}, &held); {
	case apierrors.IsNotFound(err):
		e.add(Failed, "start livesched; name its namespace with --livesched-namespace and its Lease with --lease",
			"there is no Lease %s: livesched has never led there, or runs without leader election", name)
	case err != nil:
		e.unreadable(e.clientPermits(), "the Lease "+name, err)
	case ptr.Deref(held.Spec.HolderIdentity, "") == "":
		e.add(Failed, "see the logs of the replicas", "no replica holds the Lease %s: no pods are scheduled", name)
	case !lease.Fresh(&held, e.Now, tolerance):
		e.add(Failed, "see the logs of the replicas",
			"the leader %s has not renewed the Lease %s for %s: no pods are scheduled", *held.Spec.HolderIdentity, name,
			age(&held, e.Now))
	default:
		e.add(OK, "", "%s leads, and renewed the Lease %s ago", *held.Spec.HolderIdentity, age(&held, e.Now))
	}
}

// tolerance is how much the clocks of this machine and of a Lease's holder may differ.
const tolerance = 5 * time.Second

func age(held *coordinationv1.Lease, now time.Time) string {
	if held.Spec.RenewTime == nil {
		return "ever"
	}
	return duration.HumanDuration(max(now.Sub(held.Spec.RenewTime.Time), 0))
}
