// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

// pendingPods are the pending pods of all profiles that run.
type pendingPods struct {
	byProfile map[string]*print.PodCounts
	// unknown is why they could not be read, "" if they were read.
	unknown string
}

// countPods asks livesched for the pending pods.
func (o *options) countPods(ctx context.Context, at *remoteOptions) pendingPods {
	livesched, err := o.remote(at, queuesTimeout)
	if err != nil {
		return pendingPods{unknown: oneLine(err)}
	}
	var queues v1alpha1.QueueList
	_, err = livesched.List(ctx, "queues", "", nil, &queues)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return pendingPods{unknown: fmt.Sprintf("livesched did not answer within %v", livesched.Timeout)}
	case err != nil:
		return pendingPods{unknown: oneLine(err)}
	}
	pods := pendingPods{byProfile: map[string]*print.PodCounts{}}
	for _, q := range queues.Items {
		pods.byProfile[q.Profile] = &print.PodCounts{Active: q.Active, Backoff: q.Backoff, Unschedulable: q.Unschedulable, Gated: q.Gated}
	}
	return pods
}

// oneLine returns the text of an error without line breaks, of which joined errors have some.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
