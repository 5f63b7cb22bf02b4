// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// GangDecision is the decision about a group.
type GangDecision struct {
	// Placed reports whether as many pods got a node as are needed. Otherwise none did.
	Placed bool
	// Nodes are the nodes of the pods, "" for a pod without one.
	Nodes []string
	// Preempted are the evictions for the gang, and Preemptors the pods that they are for.
	Preempted  []*fork.Preempted
	Preemptors []*corev1.Pod
	// PreemptionsLimited means that there were too many dry runs of preemptions.
	PreemptionsLimited bool

	attempt *gang.Attempt
	members *fork.Members
}

// Reason returns why a pod got no node.
func (d *GangDecision) Reason(i int) error {
	status := d.attempt.Outcomes[i].Status
	if d.attempt.Why != nil && (status == nil || status.IsRejected()) {
		status = d.attempt.Why.Of(d.attempt.Members[i].GetPod())
	}
	return status.AsError()
}

// PlaceGang decides the pods of a group, with the code of the scheduling loop: it places enough of
// them or none. The error is the cause of ctx, or the error of a change of the fork.
func (s *Sequence) PlaceGang(ctx context.Context, cfg *resolve.Profile, g *fork.Group) (*GangDecision, error) {
	instance, err := s.fork.Instance(ctx, cfg)
	if err != nil {
		return nil, err
	}
	attempt,
		members := s.fork.NewAttempt(g, instance, func(ctx context.Context, pod *corev1.Pod) (fork.Decision, error) {
		s.source.Seed(s.seed, hashOf(pod))
		return s.decider.DecideMember(ctx, instance, pod)
	})
	attempt.IntN = rand.New(s.source).IntN
	d := &GangDecision{attempt: attempt, members: members}
	return d, s.attempt(ctx, d)
}

// attempt makes the attempt at a gang.
func (s *Sequence) attempt(ctx context.Context, d *GangDecision) (err error) {
	if d.attempt.Overlay, err = s.fork.BeginOverlay(); err != nil {
		return err
	}
	defer d.attempt.End(ctx)
	d.Placed = d.attempt.Place(ctx)
	for d.attempt.Unfinished {
		d.Placed = d.attempt.Place(ctx)
	}
	d.Nodes = d.attempt.Nodes()
	if d.Placed {
		if err := d.attempt.Overlay.Commit(); err != nil {
			d.attempt.TakeBack(ctx)
			return err
		}
	}
	for _, a := range d.members.Assumed() {
		s.undo = append(s.undo, a.TakeBack)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// PreemptForGang evicts the pods that a gang would preempt that PlaceGang has just not placed, and
// tries again to place it. It does nothing if preemption does not help. The error is one that
// PlaceGang returns.
func (s *Sequence) PreemptForGang(ctx context.Context, d *GangDecision) error {
	attempt := d.attempt
	if attempt.Why.Err != nil || attempt.Group.Problem != "" {
		return nil
	}
	attempt.DryRuns = min(s.groupDryRuns, preemption.GroupDryRuns)
	before := attempt.DryRuns
	var err error
	if attempt.Overlay, err = s.fork.BeginOverlay(); err != nil {
		return err
	}
	plan, message, err := attempt.Preempt(ctx)
	attempt.End(ctx)
	s.groupDryRuns -= before - attempt.DryRuns
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, preemption.ErrTooManyDryRuns):
		d.PreemptionsLimited = true
		return nil
	case err != nil:
		attempt.Why.Message += fmt.Sprintf("; preemption: %v", err)
		return nil
	case message != "":
		attempt.Why.Message += "; " + message
		return nil
	case plan == nil:
		return nil
	}
	for _, choice := range plan.Trial.Choices() {
		preemptor, _ := plan.Preemptor(choice.Node)
		preempted, err := s.fork.Evict(preemptor, choice)
		if err != nil {
			return err
		}
		s.undo = append(s.undo, func(context.Context) error { return preempted.TakeBack() })
		d.Preempted, d.Preemptors = append(d.Preempted, preempted), append(d.Preemptors, preemptor)
	}
	d.members.Nominate(plan.Nodes)
	attempt.Nominated = sets.New(plan.Nodes...)
	return s.attempt(ctx, d)
}
