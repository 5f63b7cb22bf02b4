// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler"
	"github.com/livesched/livesched/internal/scheduler/capture"
	resolve "github.com/livesched/livesched/internal/scheduler/config"
)

// snapshotter writes snapshots of this replica, with the profiles and policies in the manager's
// cache.
type snapshotter struct {
	sched      *scheduler.Scheduler
	reader     client.Reader
	registered sets.Set[string]
	allowed    resolve.AllowedHosts
}

// Snapshot implements apiserving.Snapshotter.
func (s snapshotter) Snapshot(ctx context.Context, decisions int) (func(context.Context, io.Writer, bool) error, error) {
	if err := ready(s.sched); err != nil {
		return nil, err
	}
	in, err := s.sched.Capture(ctx, decisions)
	if err != nil {
		return nil, err
	}
	var profiles v1alpha1.SchedulerProfileList
	var policies v1alpha1.SchedulingPolicyList
	if err := errors.Join(s.reader.List(ctx, &profiles), s.reader.List(ctx, &policies)); err != nil {
		return nil, fmt.Errorf("listing SchedulerProfiles and SchedulingPolicies: %w", err)
	}
	in.SetObjects(profiles.Items, policies.Items, resolve.Resolve(resolve.Input{
		Profiles: profiles.Items, Policies: policies.Items, SecretsUnknown: true, AllowedHosts: s.allowed, Registered: s.registered,
	}))
	return func(ctx context.Context, w io.Writer, redacted bool) error {
		return capture.Write(ctx, w, in, redacted)
	}, nil
}
