// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/capture/collect"
)

// Capture returns the state of the scheduler, with at most the given number of its latest
// decisions, and without the objects of profiles and policies. It works on every replica, but only
// the leader has decisions. The error is an apierrors.APIStatus while this replica has not listed
// the cluster.
func (s *Scheduler) Capture(ctx context.Context, decisions int) (*capture.Input, error) {
	select {
	case <-s.ready:
	default:
		return nil, apierrors.NewServiceUnavailable("livesched has not listed the cluster yet")
	}
	in, err := collect.Input(klog.FromContext(ctx), collect.Source{
		Cache: s.parts.cache, Nominator: s.parts.queue.Nominator(), Informers: s.cfg.Informers, Decisions: s.Decisions(),
		Profiles: s.store.Current(),
	}, decisions)
	if err != nil {
		return nil, err
	}
	in.Header.Time, in.Header.FastPath = s.cfg.Clock.Now(), string(s.cfg.FastPath)
	return in, nil
}
