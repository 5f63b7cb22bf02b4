// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler"
)

// queueLister counts the pending pods of this replica.
type queueLister struct{ sched *scheduler.Scheduler }

// Queues implements apiserving.QueueLister. The queue of a replica that does not lead has the same
// pods, but none of them has been tried.
func (l queueLister) Queues(context.Context) ([]v1alpha1.Queue, error) {
	if err := ready(l.sched); err != nil {
		return nil, err
	}
	if !l.sched.Leading() {
		return nil, apierrors.NewServiceUnavailable("this replica does not schedule pods: another one leads")
	}
	return l.sched.Queues(), nil
}
