// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler"
)

// explainer explains pods of this replica's informers by their names.
type explainer struct{ sched *scheduler.Scheduler }

// Explain implements apiserving.Explainer.
func (e explainer) Explain(ctx context.Context, namespace, name, node string) (*v1alpha1.PodExplanation, error) {
	if err := ready(e.sched); err != nil {
		return nil, err
	}
	pod, err := e.sched.Pods().Pods(namespace).Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	case err != nil:
		return nil, err
	case pod.Spec.NodeName != "":
		return e.sched.ExplainBound(ctx, pod, node)
	}
	return e.sched.ExplainPending(ctx, pod, node)
}
