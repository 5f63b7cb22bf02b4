// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/debugger"
)

// errNotReady is the error of a scheduler that has not seen the first lists.
var errNotReady = errors.New("the informers have not delivered their first lists")

// Report logs the state of the scheduler, and its differences from the API server. It returns when
// that is done, and does not hold up scheduling. Calls must not overlap.
func (s *Scheduler) Report(ctx context.Context) {
	d, err := s.debugger()
	if err != nil {
		klog.FromContext(ctx).Info("There is nothing to dump yet", "reason", err.Error())
		return
	}
	d.Report(ctx)
}

// Compare returns the lasting differences between cache, queue and nominator on one side and the
// API server on the other. See [debugger.Debugger.Compare]. It is for end-to-end suites, which
// expect none; Report logs the same.
func (s *Scheduler) Compare(ctx context.Context) ([]debugger.Difference, error) {
	d, err := s.debugger()
	if err != nil {
		return nil, err
	}
	return d.Compare(ctx)
}

func (s *Scheduler) debugger() (*debugger.Debugger, error) {
	select {
	case <-s.ready:
	default:
		return nil, errNotReady
	}
	return &debugger.Debugger{
		Client:      s.cfg.Client,
		Cache:       s.parts.cache,
		Queue:       s.parts.queue,
		WaitingPods: s.parts.env.WaitingPods,
		Profiles:    s.store,
		Leading:     &s.leading,
		Clock:       s.cfg.Clock,
	}, nil
}
