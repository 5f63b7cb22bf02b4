// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler"
)

// decisionLister lists the decisions of this replica.
type decisionLister struct{ sched *scheduler.Scheduler }

// Decisions implements apiserving.DecisionLister.
func (l decisionLister) Decisions(_ context.Context, namespace string, limit int) ([]v1alpha1.Decision, error) {
	if err := ready(l.sched); err != nil {
		return nil, err
	}
	decisions, err := l.sched.LatestDecisions(namespace, limit)
	if errors.Is(err, scheduler.ErrNoDecisionLog) {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	return decisions, err
}
