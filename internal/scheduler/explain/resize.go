// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Resize explains what the deferred resize of a bound pod waits for. wait is what the queue has
// about it, nil if the pod is not there. The fork is left as it was.
func Resize(ctx context.Context, k *fork.Fork, pod *corev1.Pod, wait *queue.Wait) (string, error) {
	const lead = "The kubelet has deferred a resize of the pod. "
	cfg, err := k.ProfileOf(pod)
	if errors.Is(err, fork.ErrNoProfile) {
		return lead + noProfile(pod.Spec.SchedulerName, k.SchedulerNames()), nil
	}
	if err != nil {
		return "", err
	}
	reasons, err := ownNodeRefusals(ctx, k, cfg, pod)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return lead + fmt.Sprintf("It is unknown whether it fits: %v.", err), nil
	case len(reasons) == 0:
		return lead + "It fits on the node, and waits for the kubelet." + inQueue(wait), nil
	}
	return lead + fmt.Sprintf("It does not fit on the node: %s.", strings.Join(reasons, ", ")) + inQueue(wait), nil
}

// ownNodeRefusals returns why the pod, as it is to be, does not fit on the node that it is on.
func ownNodeRefusals(ctx context.Context, k *fork.Fork, cfg *resolve.Profile, pod *corev1.Pod) ([]string, error) {
	instance, err := k.Instance(ctx, cfg)
	if err != nil {
		return nil, err
	}
	refusals, err := k.Refusals(ctx, instance, pod)
	if err != nil {
		return nil, err
	}
	for i, node := range refusals.Nodes {
		if node.Node().Name != pod.Spec.NodeName {
			continue
		}
		var reasons []string
		for _, status := range refusals.ByNode[i] {
			reasons = append(reasons, status.Reasons()...)
		}
		return reasons, nil
	}
	return []string{"the node is gone"}, nil
}

// inQueue describes where in the queue the pod is.
func inQueue(wait *queue.Wait) string {
	if wait == nil {
		return " It is not in the queue."
	}
	return fmt.Sprintf(" In the queue it is %s, after %d attempts to make room.", wait.Place, wait.Attempts)
}
