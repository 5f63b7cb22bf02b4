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
	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// explainBound explains why a pod is on its node: by the recorded decision if this replica has made
// it, and still has it with its scores, and else by a decision that it makes again on a fork. If
// node is not "", it compares that node with the others, in the present state of the cluster. It
// also says what a deferred resize waits for.
func (a *Answers) explainBound(ctx context.Context, pod *corev1.Pod, node string) (*v1alpha1.PodExplanation, error) {
	x, err := a.explainNodeOf(ctx, pod, node)
	if err != nil || !a.Queue.DeferredResizes() || !podfields.ResizeDeferred(pod) {
		return x, err
	}
	k, err := a.Forker.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	var wait *queue.Wait
	if w, ok := a.Queue.Wait(pod.UID); ok {
		wait = &w
	}
	resize, err := explain.Resize(ctx, k, pod, wait)
	if err != nil {
		return nil, err
	}
	x.Message += " " + resize
	return x, nil
}

// explainNodeOf is explainBound without what is said about a resize.
func (a *Answers) explainNodeOf(ctx context.Context, pod *corev1.Pod, node string) (*v1alpha1.PodExplanation, error) {
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
