// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/livesched/livesched/api/v1alpha1"
)

// queuesTimeout limits the time for the numbers of pending pods if --request-timeout is not set:
// the rest of the output does not depend on them.
const queuesTimeout = 5 * time.Second

// podCounts are the pending pods of a profile by queue.
type podCounts struct {
	Active        int32 `json:"active"`
	Backoff       int32 `json:"backoff"`
	Unschedulable int32 `json:"unschedulable"`
	Gated         int32 `json:"gated"`
}

// pending returns the number of pods that wait, in any queue.
func (c *podCounts) pending() int32 { return c.Active + c.Backoff + c.Unschedulable + c.Gated }

// pendingPods are the pending pods of all profiles that run.
type pendingPods struct {
	byProfile map[string]*podCounts
	// unknown is why they could not be read, "" if they were read.
	unknown string
}

// countPods asks livesched for the pending pods.
func (o *options) countPods(ctx context.Context, config *rest.Config, at *remoteOptions) pendingPods {
	timeout := cmp.Or(config.Timeout, queuesTimeout)
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	queues, err := o.listQueues(asking, config, at)
	switch {
	case asking.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return pendingPods{unknown: fmt.Sprintf("livesched did not answer within %v", timeout)}
	case err != nil:
		return pendingPods{unknown: oneLine(err)}
	}
	pods := pendingPods{byProfile: map[string]*podCounts{}}
	for _, q := range queues {
		pods.byProfile[q.Profile] = &podCounts{Active: q.Active, Backoff: q.Backoff, Unschedulable: q.Unschedulable, Gated: q.Gated}
	}
	return pods
}

// listQueues returns the queues of the leader.
func (o *options) listQueues(ctx context.Context, config *rest.Config, at *remoteOptions) ([]v1alpha1.Queue, error) {
	livesched := o.remote(config, at)
	text, err := livesched.List(ctx, "queues", "", nil)
	if err != nil {
		return nil, err
	}
	var list v1alpha1.QueueList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading the answer of livesched: %w", err)
	}
	return list.Items, nil
}

// oneLine returns the text of an error without line breaks, of which joined errors have some.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
