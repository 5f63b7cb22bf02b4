// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/debugger"
)

// errNotReady is what a scheduler says that has not seen the first lists.
var errNotReady = errors.New("the informers have not delivered their first lists")

// Report writes what the scheduler believes into the log of ctx, and where that is not what the API
// server says. It returns when that is done and does not hold up scheduling. One call at a time.
func (s *Scheduler) Report(ctx context.Context) {
	d, err := s.debugger()
	if err != nil {
		klog.FromContext(ctx).Info("There is nothing to dump yet", "reason", err.Error())
		return
	}
	d.Report(ctx)
}

// Compare returns where cache, queue and nominator lastingly differ from what the API server says:
// nothing, if all is well. See debugger.Compare for what is compared.
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
		Client:      s.client,
		Cache:       s.cache,
		Queue:       s.queue,
		WaitingPods: s.env.WaitingPods,
		Profiles:    s.profiles,
		Leading:     s.Leading,
		Clock:       s.clock,
	}, nil
}

func (s *Scheduler) profiles() []debugger.ProfileState {
	var profiles []debugger.ProfileState
	for p := range s.store.Current().All() {
		profiles = append(profiles, debugger.ProfileState{SchedulerName: p.SchedulerName(), Revision: p.Config.Revision, Built: p.Built})
	}
	return profiles
}
