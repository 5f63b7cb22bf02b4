// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/fork"
)

// Reasons returns why nodes refuse a pod: the reason of the first plugin that does, by the names of
// the nodes. Nodes that the pod fits are missing. A pod that is on a node is taken off it on the
// fork. The result is nil if no profile has the scheduler name of the pod. The error is one of a
// plugin, or the cause of ctx.
func Reasons(ctx context.Context, k *fork.Fork, pod *corev1.Pod) (map[string]v1alpha1.RefusalReason, error) {
	cfg, err := k.ProfileOf(pod)
	if errors.Is(err, fork.ErrNoProfile) {
		return nil, nil
	}
	unplaced, err := takeOff(k, pod)
	if err != nil {
		return nil, err
	}
	instance, err := k.Instance(ctx, cfg)
	if err != nil {
		return nil, err
	}
	refusals, err := k.Refusals(ctx, instance, unplaced)
	if err != nil {
		return nil, err
	}
	found, known := map[string]v1alpha1.RefusalReason{}, reasons{}
	for i, node := range refusals.Nodes {
		if statuses := refusals.ByNode[i]; len(statuses) > 0 {
			found[node.Node().Name] = known.of(statuses[0])
		}
	}
	return found, nil
}
