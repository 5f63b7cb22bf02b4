// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
)

// Decisions implements apiserving.Answers.
func (a *Answers) Decisions(ctx context.Context,
	q *apiserving.DecisionQuery) (_ []v1alpha1.Decision, latest int64, err error) {
	if a.Log == nil {
		return nil, 0, apierrors.NewServiceUnavailable("decisions are not recorded: --decision-log-size is 0")
	}
	filter := decisionlog.Filter{
		Namespace: q.Namespace, Pod: q.Pod, Group: q.PodGroup, Profile: q.Profile, Node: q.Node,
		After: decisionlog.Number(q.After),
	}
	filter.Result, _ = decisionlog.ResultOf(string(q.Result)) // "" selects all
	c := collector{query: q, last: map[string]int{}, decisions: []v1alpha1.Decision{}}
	latest = int64(a.Log.Newest()) // so that those who list what follows miss nothing
	if err := a.Log.Select(ctx, &filter, c.add); err != nil {
		return nil, 0, err
	}
	return c.decisions, latest, nil
}

// collector collects decisions, the latest first.
type collector struct {
	query     *apiserving.DecisionQuery
	decisions []v1alpha1.Decision
	// last has the index of the earliest decision so far about a pod, or a group as a whole.
	last map[string]int
}

// add adds a decision. It reports whether there is room for others.
func (c *collector) add(d *decisionlog.Decision) bool {
	if !c.query.Collapse {
		c.decisions = append(c.decisions, decisionOf(d))
		return len(c.decisions) < c.query.Limit
	}
	about := string(d.Pod)
	if about == "" {
		about = d.Namespace + "/" + d.Group
	}
	out := decisionOf(d)
	if i, ok := c.last[about]; ok && repeats(&c.decisions[i], &out) {
		c.decisions[i].Repeated++
		c.decisions[i].Since = &out.Time
		return true
	}
	if len(c.decisions) == c.query.Limit {
		return false
	}
	out.Repeated, out.Since = 1, &out.Time
	c.last[about] = len(c.decisions)
	c.decisions = append(c.decisions, out)
	return true
}

// repeats reports whether two decisions about the same pod are alike for those who read many.
func repeats(a, b *v1alpha1.Decision) bool {
	return a.Result == b.Result && a.Node == b.Node && a.Domain == b.Domain && a.Profile == b.Profile &&
		a.Revision == b.Revision &&
		(a.Message == b.Message || withoutNumbers(a.Message) == withoutNumbers(b.Message))
}

// withoutNumbers returns a text without digits: the numbers of nodes differ from attempt to
// attempt.
func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// decisionOf describes a decision.
func decisionOf(d *decisionlog.Decision) v1alpha1.Decision {
	evaluated := 0
	if d.Partial {
		evaluated = d.Evaluated
	}
	return v1alpha1.Decision{
		Number: int64(d.Number), Time: metav1.NewMicroTime(d.Time), Namespace: d.Namespace, Pod: d.Name, PodUID: d.Pod,
		PodGroup: d.Group,
		Attempt:  int32(d.Attempt), Profile: d.Profile, Revision: d.Revision,
		Result: v1alpha1.DecisionResult(d.Result.String()), Message: d.Message, Node: d.Node, Domain: d.Domain.String(),
		Nodes: int32(d.Nodes), Feasible: int32(d.Feasible), Evaluated: int32(evaluated), Total: d.Total,
		Tied: int32(d.Tied),
	}
}
