// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/scheduler"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
)

// decisionLister lists the decisions of this replica.
type decisionLister struct{ sched *scheduler.Scheduler }

// Decisions implements apiserving.DecisionLister.
func (l decisionLister) Decisions(ctx context.Context, q *apiserving.DecisionQuery) (_ []v1alpha1.Decision, latest int64, err error) {
	if err := ready(l.sched); err != nil {
		return nil, 0, err
	}
	query := scheduler.DecisionQuery{Limit: q.Limit, Collapse: q.Collapse, Filter: decisionlog.Filter{
		Namespace: q.Namespace, Pod: q.Pod, Group: q.PodGroup, Profile: q.Profile, Node: q.Node, After: decisionlog.Number(q.After),
	}}
	query.Result, _ = decisionlog.ResultOf(string(q.Result)) // "" selects all
	decisions, latest, err := l.sched.LatestDecisions(ctx, &query)
	if errors.Is(err, scheduler.ErrNoDecisionLog) {
		return nil, 0, apierrors.NewServiceUnavailable(err.Error())
	}
	return decisions, latest, err
}
