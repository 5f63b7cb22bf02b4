// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
)

// ExplainBound explains why a pod is on its node: by the recorded decision if this replica has made
// it, and still has it with its scores, and else by a decision that it makes again on a fork. If
// node is not "", it compares that node with the others, in the present state of the cluster.
//
// The error is an apierrors.APIStatus if this replica cannot answer yet, if the pod is pending, if
// there is no such node, or if the API server does not answer.
func (s *Scheduler) ExplainBound(ctx context.Context, pod *corev1.Pod, node string) (*v1alpha1.PodExplanation, error) {
	select {
	case <-s.ready:
	default:
		return nil, apierrors.NewServiceUnavailable("livesched has not listed the cluster yet")
	}
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest("the pod is pending")
	}
	bound := explain.Bound{Pod: pod, Now: s.cfg.Clock.Now()}
	if d, ok := s.Decisions().OfPod(pod.UID); ok && d.Node == pod.Spec.NodeName {
		bound.Decision = &d
		bound.Changes = max(0, int64(s.parts.cache.Changes()-d.Changes)-int64(d.Placed)-1) // one is that the pod was assumed
	}
	if bound.IsRecorded() && node == "" {
		return explain.Recorded(bound), nil
	}
	// Informers keep of bound pods only what the decisions about others read.
	complete, err := s.cfg.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, err
	case complete.UID != pod.UID || complete.Spec.NodeName == "":
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	}
	bound.Pod = complete
	k, err := s.Fork(ctx)
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
