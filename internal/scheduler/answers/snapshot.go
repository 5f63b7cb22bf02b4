// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"io"

	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/capture/collect"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Snapshot implements apiserving.Answers.
func (a *Answers) Snapshot(ctx context.Context, decisions int) (func(context.Context, io.Writer, bool) error, error) {
	in, err := collect.Input(klog.FromContext(ctx), collect.Source{
		Cache: a.Cache, Nominator: a.Queue.Nominator(), Informers: a.Informers, Decisions: a.Log,
		Profiles: a.Profiles.Current(),
	}, decisions)
	if err != nil {
		return nil, err
	}
	in.Header.Time, in.Header.FastPath = a.Clock.Now(), a.FastPath
	objects, err := a.objects(ctx)
	if err != nil {
		return nil, err
	}
	in.SetObjects(objects.Profiles, objects.Policies, resolve.Objects(objects))
	return func(ctx context.Context, w io.Writer, redacted bool) error {
		return capture.Write(ctx, w, in, redacted)
	}, nil
}
