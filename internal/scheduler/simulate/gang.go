// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// Gang is a group of pods that a Sequence places together. There is at least one pod, and all have
// the same scheduler name.
type Gang struct {
	podgroup.Group
	Pods []*corev1.Pod
	// Needed is how many pods must get a node, and On are the nodes of pods of the group that have
	// one already.
	Needed int
	On     sets.Set[string]
}

// GangDecision is the decision about a Gang.
type GangDecision struct {
	// Placed reports whether as many pods got a node as are needed. Otherwise none did.
	Placed bool
	// Nodes are those of the pods, "" for those without one.
	Nodes []string
	// Preempted are the evictions for the gang, and Preemptors the pods that they are for.
	Preempted  []*fork.Preempted
	Preemptors []*corev1.Pod
	// PreemptionsLimited means that there were too many dry runs of preemptions.
	PreemptionsLimited bool

	attempt *gang.Attempt
	cluster *gangCluster
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
// them or none. The error is that of a context that ended, or of a change of the fork that failed.
func (s *Sequence) PlaceGang(ctx context.Context, cfg *config.Profile, g *Gang) (*GangDecision, error) {
	instance, err := s.fork.Instance(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cluster := &gangCluster{sequence: s, cfg: cfg, pods: slices.Clone(g.Pods), assumed: make([]*fork.Assumed, len(g.Pods))}
	attempt := &gang.Attempt{
		Group: g.Group, Needed: g.Needed, On: g.On, Profile: instance, Groups: s.fork.Groups(), IntN: rand.New(s.source).IntN,
		Cluster: cluster,
	}
	for _, pod := range g.Pods {
		info, _ := schedframework.NewPodInfo(pod) // the error is about affinity terms, which the decision finds, too
		attempt.Members = append(attempt.Members, info)
	}
	d := &GangDecision{attempt: attempt, cluster: cluster}
	return d, s.attempt(ctx, d)
}

// attempt makes the attempt at a gang.
func (s *Sequence) attempt(ctx context.Context, d *GangDecision) error {
	d.Placed = d.attempt.Place(ctx)
	d.Nodes = d.attempt.Nodes()
	for _, a := range d.cluster.assumed {
		if a != nil {
			s.undo = append(s.undo, a.TakeBack)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return d.cluster.err
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
	plan, message, err := attempt.Preempt(ctx)
	s.groupDryRuns -= before - attempt.DryRuns
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case d.cluster.err != nil:
		return d.cluster.err
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
	d.cluster.nominate(plan.Nodes)
	return s.attempt(ctx, d)
}

// gangCluster places the pods of a gang on a fork.
type gangCluster struct {
	sequence *Sequence
	cfg      *config.Profile
	pods     []*corev1.Pod
	assumed  []*fork.Assumed
	// err is that of a change of the fork that failed.
	err error
}

var _ gang.Cluster = &gangCluster{}

// nominate nominates the pods for nodes, those that have one.
func (c *gangCluster) nominate(nodes []string) {
	for i, node := range nodes {
		nominated := *c.pods[i] // shallow: nothing below the status is changed
		nominated.Status.NominatedNodeName = node
		c.pods[i] = &nominated
	}
}

// Snapshot implements gang.Cluster.
func (c *gangCluster) Snapshot(context.Context) (*cache.Snapshot, error) {
	return c.sequence.fork.Snapshot()
}

// Place implements gang.Cluster.
func (c *gangCluster) Place(ctx context.Context, i int, within podgroup.Domain) gang.Outcome {
	d, err := c.sequence.decideMember(ctx, c.cfg, within.Restrict(c.pods[i]))
	switch {
	case errors.Is(err, algorithm.ErrNoNodesAvailable):
		return gang.Outcome{Status: fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(err), State: d.State}
	case Refused(err):
		return gang.Outcome{Status: fwk.NewStatus(fwk.Unschedulable).WithError(err), State: d.State}
	case err != nil:
		return gang.Outcome{Status: fwk.AsStatus(err)}
	}
	d.Pod = c.pods[i]
	if c.assumed[i], err = c.sequence.fork.Assume(ctx, d); err != nil {
		return gang.Outcome{Status: fwk.AsStatus(err)}
	}
	return gang.Outcome{Node: d.SuggestedHost}
}

// TakeBack implements gang.Cluster.
func (c *gangCluster) TakeBack(ctx context.Context, i int) {
	c.err = errors.Join(c.err, c.assumed[i].TakeBack(ctx))
	c.assumed[i] = nil
}

// Hide implements gang.Cluster.
func (c *gangCluster) Hide(pods ...*corev1.Pod) { c.sequence.fork.Hide(pods...) }

// Show implements gang.Cluster.
func (c *gangCluster) Show() { c.sequence.fork.Show() }
