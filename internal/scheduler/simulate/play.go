// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/preemption"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// The numbers of pods without a node, and of evicted pods, that a result names. It takes long to
// find out why a pod has no node, so only the first ones have a reason.
const (
	maxUnplaced = 1000
	maxReasons  = 20
	maxVictims  = 1000
)

// played are the decisions of a sequence.
type played struct {
	nodes    int
	placed   []string // the nodes of the subjects, "" for those without one
	unplaced []v1alpha1.UnplacedPod
	outcome  v1alpha1.SimulationOutcome
	// evicted are all pods that were evicted.
	evicted sets.Set[types.UID]
	// left are the pods that have left their nodes and are no subjects: victims, and pods that were
	// being deleted.
	left []*corev1.Pod
	// done are the groups whose turn has come.
	done sets.Set[groupKey]
}

// play decides the subjects, measures where they are, and takes them back.
func (s *simulation) play(ctx context.Context, profileOf func(string) (*resolve.Profile, error)) (*played, error) {
	sequence := NewSequence(s.fork, s.seed)
	p, err := s.decide(ctx, sequence, profileOf)
	if err != nil {
		return nil, err
	}
	snapshot, err := s.fork.Snapshot()
	if err != nil {
		return nil, err
	}
	s.settle(p, 1)
	measured := measure(snapshot, s.census, s.owners)
	s.settle(p, -1)
	p.nodes = snapshot.NumNodes()
	p.outcome.NodesUsed, p.outcome.Utilization, p.outcome.ZoneSkewMax = measured.NodesUsed, measured.Utilization,
		measured.ZoneSkewMax
	if err := s.addAllocations(&p.outcome); err != nil {
		return nil, err
	}
	return p, sequence.TakeBack(ctx)
}

// decide decides the subjects in their order.
func (s *simulation) decide(ctx context.Context, sequence *Sequence,
	profileOf func(string) (*resolve.Profile, error)) (*played, error) {
	p := &played{placed: make([]string, len(s.subjects)), evicted: sets.New[types.UID](), done: sets.New[groupKey]()}
	for i := range s.subjects {
		if err := s.turn(ctx, sequence, profileOf, i, p); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return p, nil
}

// settle adds the changes of a sequence to the census if n is 1, and takes them back if it is -1.
func (s *simulation) settle(p *played, n int) {
	for i, node := range p.placed {
		s.census.move(node, s.subjects[i].controller, n)
	}
	for _, pod := range p.left {
		s.census.move(pod.Spec.NodeName, s.census.of(pod), -n)
	}
}

// turn decides a subject, or its group if this is the first one of it. The error is the error of a
// change of the fork.
func (s *simulation) turn(
	ctx context.Context, sequence *Sequence, profileOf func(string) (*resolve.Profile, error), i int, p *played,
) error {
	pod := s.subjects[i].pod
	cfg, err := profileOf(pod.Spec.SchedulerName)
	var instance *profile.Instance
	if err == nil {
		instance, err = s.fork.Instance(ctx, cfg)
	}
	if err == nil {
		key := groupOf(pod, s.fork.Groups())
		if group := s.groups[key]; group.together(instance.Queue.IgnorePodGroups) {
			if p.done.Has(key) {
				return nil
			}
			p.done.Insert(key)
			return s.placeGroup(ctx, sequence, cfg, group, p)
		}
		p.placed[i], err = s.place(ctx, sequence, cfg, pod, p)
	}
	if err != nil {
		p.refuse(pod, err.Error())
	}
	return nil
}

// placeGroup decides the subjects of a group together.
func (s *simulation) placeGroup(ctx context.Context, sequence *Sequence, cfg *resolve.Profile, group *subjectGroup,
	p *played) error {
	together := &fork.Group{Group: group.Group, Tree: group.tree}
	if group.tree != nil {
		together.Leaves = group.leaves(p.evicted)
	} else {
		together.Needed, together.On = group.needed(p.evicted)
	}
	var members []int
	awaited := group.awaited(together.Needed, together.Leaves)
	for i, pod := range group.pods {
		if message, waits := awaited[podgroup.KeyOf(pod)]; waits {
			p.refuse(pod, message)
			continue
		}
		members, together.Pods = append(members, group.members[i]), append(together.Pods, pod)
	}
	if len(members) == 0 {
		return nil
	}
	d, err := sequence.PlaceGang(ctx, cfg, together)
	if err == nil && !d.Placed {
		err = sequence.PreemptForGang(ctx, d)
	}
	if err != nil {
		return err
	}
	p.outcome.PreemptionsLimited = p.outcome.PreemptionsLimited || d.PreemptionsLimited
	for i, preempted := range d.Preempted {
		s.count(p, d.Preemptors[i], preempted)
	}
	for i, member := range members {
		p.placed[member] = d.Nodes[i]
		if d.Nodes[i] == "" {
			p.refuse(together.Pods[i], d.Reason(i).Error())
		}
	}
	return nil
}

// place decides a pod, and preempts others for it if it fits nowhere. It returns its node.
func (s *simulation) place(ctx context.Context, sequence *Sequence, cfg *resolve.Profile, pod *corev1.Pod,
	p *played) (string, error) {
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
	if Refused(err) && len(p.unplaced) < maxReasons {
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
		p.evicted.Insert(victim.UID)
		if len(p.outcome.VictimPods) < maxVictims && (s.namespace == "" || s.namespace == victim.Namespace) {
			p.outcome.VictimPods = append(p.outcome.VictimPods, v1alpha1.VictimPod{
				Namespace: victim.Namespace, Name: victim.Name, Node: victim.Spec.NodeName,
				PreemptorNamespace: preemptor.Namespace, PreemptorName: preemptor.Name,
			})
		}
		if i, ok := s.numbers[victim.UID]; ok {
			p.placed[i] = ""
			p.refuse(victim, fmt.Sprintf("Preempted by %s/%s.", preemptor.Namespace, preemptor.Name))
		}
	}
	for _, pod := range preempted.TakenOff() {
		if _, isSubject := s.numbers[pod.UID]; !isSubject {
			p.left = append(p.left, pod)
		}
	}
}

// refuse adds a pod without a node.
func (p *played) refuse(pod *corev1.Pod, message string) {
	if len(p.unplaced) >= maxReasons {
		message = ""
	}
	if len(p.unplaced) < maxUnplaced {
		p.unplaced = append(p.unplaced,
			v1alpha1.UnplacedPod{Namespace: pod.Namespace, Name: pod.Name, Message: message})
	}
}
