// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
)

// explainBound explains why a pod is on its node: by the recorded decision if this replica has made
// it, and still has it with its scores, and else by a decision that it makes again on a fork. If
// node is not "", it compares that node with the others, in the present state of the cluster.
func (a *Answers) explainBound(ctx context.Context, pod *corev1.Pod, node string) (*v1alpha1.PodExplanation, error) {
	bound := explain.Bound{Pod: pod, Now: a.Clock.Now()}
	if d, ok := a.Log.OfPod(pod.UID); ok && d.Node == pod.Spec.NodeName {
		bound.Decision = &d
		bound.Changes = max(0, int64(a.Cache.Changes()-d.Changes)-int64(d.Placed)-1) // one is that the pod was assumed
	}
	if bound.IsRecorded() && node == "" {
		return explain.Recorded(bound), nil
	}
	// Informers keep of bound pods only what the decisions about others read.
	complete, err := a.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, err
	case complete.UID != pod.UID || complete.Spec.NodeName == "":
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	}
	bound.Pod = complete
	k, err := a.Forker.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	var x *v1alpha1.PodExplanation
	if bound.IsRecorded() {
		x = explain.Recorded(bound)
	} else if x, err = explain.Recompute(ctx, k, bound); err != nil {
		return nil, err
	}
	if node != "" {
		x.Node, err = explainNode(ctx, k, complete, node)
	}
	return x, err
}
