// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// The numbers of pods without a node, and of evicted pods, that a result names.
const (
	maxUnplaced = 10
	maxVictims  = 10
)

// played are the decisions of a sequence.
type played struct {
	nodes    int
	placed   []string // the nodes of the subjects, "" for those without one
	unplaced []v1alpha1.UnplacedPod
	outcome  v1alpha1.SimulationOutcome
}

// play decides the subjects, measures where they are, and takes them back.
func (s *simulation) play(ctx context.Context, profileOf func(string) (*config.Profile, error)) (*played, error) {
	sequence := NewSequence(s.fork, s.seed)
	p := &played{placed: make([]string, len(s.subjects))}
	for i := range s.subjects {
		pod := s.subjects[i].pod
		cfg, err := profileOf(pod.Spec.SchedulerName)
		if err == nil {
			p.placed[i], err = s.place(ctx, sequence, cfg, pod, p)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			p.refuse(pod, err.Error())
		}
	}
	snapshot, err := s.fork.Snapshot()
	if err != nil {
		return nil, err
	}
	measured := measure(snapshot, s.controllers, s.owners)
	p.nodes = snapshot.NumNodes()
	p.outcome.NodesUsed, p.outcome.Utilization, p.outcome.ZoneSkewMax = measured.NodesUsed, measured.Utilization, measured.ZoneSkewMax
	return p, sequence.TakeBack(ctx)
}

// place decides a pod, and preempts others for it if it fits nowhere. It returns its node.
func (s *simulation) place(ctx context.Context, sequence *Sequence, cfg *config.Profile, pod *corev1.Pod, p *played) (string, error) {
	d, err := sequence.Place(ctx, cfg, pod)
	if Refused(err) {
		reason := err
		var preempted *fork.Preempted
		preempted, d, err = sequence.Preempt(ctx, cfg, d, reason)
		switch {
		case errors.Is(err, preemption.ErrTooManyDryRuns):
			p.outcome.PreemptionsLimited, err = true, reason
		case preempted != nil:
			s.count(p, pod, preempted)
		case err == nil:
			err = reason
		}
	}
	if Refused(err) && len(p.unplaced) < maxUnplaced {
		err = sequence.Reasons(ctx, cfg, pod, err)
	}
	if err != nil {
		return "", err
	}
	return d.SuggestedHost, nil
}

// count counts the pods that a pod has evicted. Those that are subjects are on no node any more.
func (s *simulation) count(p *played, preemptor *corev1.Pod, preempted *fork.Preempted) {
	if len(preempted.Victims) > 0 {
		p.outcome.Preemptions++
	}
	for _, victim := range preempted.Victims {
		p.outcome.Victims++
		if len(p.outcome.VictimPods) < maxVictims && (s.namespace == "" || s.namespace == victim.Namespace) {
			p.outcome.VictimPods = append(p.outcome.VictimPods, v1alpha1.VictimPod{
				Namespace: victim.Namespace, Name: victim.Name, Node: preempted.Node,
				PreemptorNamespace: preemptor.Namespace, PreemptorName: preemptor.Name,
			})
		}
		if i, ok := s.numbers[victim.UID]; ok {
			p.placed[i] = ""
			p.refuse(victim, fmt.Sprintf("Preempted by %s/%s.", preemptor.Namespace, preemptor.Name))
		}
	}
}

// refuse adds a pod without a node.
func (p *played) refuse(pod *corev1.Pod, message string) {
	if len(p.unplaced) < maxUnplaced {
		p.unplaced = append(p.unplaced, v1alpha1.UnplacedPod{Namespace: pod.Namespace, Name: pod.Name, Message: message})
	}
}
