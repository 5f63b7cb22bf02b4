// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// isStatic reports whether claims of the pod have to be bound to volumes that exist.
func isStatic(volumes *volumebinding.PodVolumes) bool {
	return volumes != nil && len(volumes.StaticBindings) > 0
}

// bindStatic makes upstream's binder bind the claims, some of them to volumes that exist, and
// waits until they are bound.
//
// Upstream's types do not tell which volumes these are, so its binder does the work. It looks once
// a second, and finds what has failed. bindStatic also looks when a claim or its volume changes,
// and returns when all are bound. The binder finds that at its next look, in a goroutine of its
// own.
func (p *provisioner) bindStatic(ctx context.Context, binder volumebinding.SchedulerVolumeBinder, pod *corev1.Pod,
	volumes *volumebinding.PodVolumes) error {
	changed, stop := p.changes.watch(pod)
	defer stop()
	ended, release := startBinding(ctx, binder, pod, separate(volumes))
	lost := lostWrites{provisioner: p, pod: pod}
	forgotten := time.NewTicker(forgottenAfter)
	defer forgotten.Stop()
	for {
		select {
		case <-forgotten.C:
			if err := lost.look(); err != nil {
				return err
			}
		case err := <-ended:
			if err != nil {
				return err
			}
			// Upstream has looked at the volumes that it chose. The controller may have bound a
			// claim of several pods to one that was chosen for another pod.
			if _, err := p.look(ctx, binder, pod, nil); err != nil {
				return fmt.Errorf("binding volumes: %w", err)
			}
			return nil
		case <-changed:
			done, err := p.look(ctx, binder, pod, nil)
			if err != nil {
				klog.FromContext(ctx).V(4).Info("Looking at the volumes of the pod again", "pod", klog.KObj(pod), "err",
					err)
			}
			if done && release() {
				return nil
			}
		}
	}
}

// startBinding starts BindPodVolumes. It is canceled with ctx, unless release was called before.
// Otherwise, release returns false.
func startBinding(ctx context.Context, binder volumebinding.SchedulerVolumeBinder, pod *corev1.Pod,
	volumes *volumebinding.PodVolumes) (ended <-chan error, release func() bool) {
	deadline, _ := ctx.Deadline()
	within, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	release = context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})
	result := make(chan error, 1)
	go func() {
		defer cancel()
		result <- binder.BindPodVolumes(within, pod, volumes)
	}()
	return result, release
}

// separate returns volumes that the binder may change: it replaces each volume by the one that it
// has written. The caller reads the others if a later step of the binding fails.
func separate(volumes *volumebinding.PodVolumes) *volumebinding.PodVolumes {
	copied := copyOf(volumes)
	for i, binding := range copied.StaticBindings {
		own := *binding
		copied.StaticBindings[i] = &own
	}
	return &copied
}
