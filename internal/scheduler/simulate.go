// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/simulate"
)

// Simulate decides pods again, on a fork that is made for it; see simulate.Run. It works on every
// replica, in the goroutine of the caller.
func (s *Scheduler) Simulate(ctx context.Context, r simulate.Request) (*v1alpha1.SimulationStatus, error) {
	k, err := s.forkWhenReady(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	pods, err := s.parts.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			r.Pending = append(r.Pending, pod)
		}
	}
	now := s.cfg.Clock.Now()
	status, err := simulate.Run(ctx, k, r)
	if err != nil {
		return nil, err
	}
	status.Time = metav1.NewTime(now)
	return status, nil
}

// CountPods counts how many pods like one fit, on a fork that is made for it; see simulate.Count.
func (s *Scheduler) CountPods(ctx context.Context, r simulate.CountRequest) (*v1alpha1.CapacityStatus, error) {
	k, err := s.forkWhenReady(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	now := s.cfg.Clock.Now()
	status, err := simulate.Count(ctx, k, r)
	if err != nil {
		return nil, err
	}
	status.Time = metav1.NewTime(now)
	return status, nil
}

// forkWhenReady returns a fork, or an error while this replica has not listed the cluster.
func (s *Scheduler) forkWhenReady(ctx context.Context) (*fork.Fork, error) {
	select {
	case <-s.ready:
		return s.Fork(ctx)
	default:
		return nil, apierrors.NewServiceUnavailable("livesched has not listed the cluster yet")
	}
}
