// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fork

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// BeginOverlay opens an overlay on the snapshot of the fork. While it is open, the snapshot shows
// no other changes of the fork.
func (f *Fork) BeginOverlay() (*cache.Overlay, error) {
	return f.cache.BeginOverlay(f.logger, f.snapshot)
}

// Group is a pod group, with the pods that are placed together.
type Group struct {
	podgroup.Group
	// Tree is the tree of groups that is placed together, and Leaves has the states of its groups
	// of pods. nil: there is only this group.
	Tree   *podgroup.Tree
	Leaves map[podgroup.Key]podgroup.Leaf
	// Needed is how many pods must get a node, and On are the nodes of pods of the group that have
	// one already. A tree needs neither.
	Needed int
	On     sets.Set[string]
	// Pods are those that can be placed. They are on no node.
	Pods []*corev1.Pod
}

// Members decide the pods of a group on a fork, for an attempt to place them together.
type Members struct {
	pods   []*corev1.Pod
	fork   *Fork
	decide func(context.Context, *corev1.Pod) (Decision, error)
	// state is what plugins keep for the pods together, such as the devices that they share.
	state fwk.PodGroupCycleState
	// reserved are the pods that have a node. The others are nil.
	reserved []*Assumed
}

var _ gang.Decider = &Members{}

// NewAttempt returns an attempt at a group, whose overlay the caller opens, and its Decider. decide
// decides one of the pods.
func (f *Fork) NewAttempt(
	g *Group, p *profile.Instance, decide func(context.Context, *corev1.Pod) (Decision, error),
) (*gang.Attempt, *Members) {
	m := &Members{pods: slices.Clone(g.Pods), fork: f, decide: decide, state: schedframework.NewCycleState(),
		reserved: make([]*Assumed, len(g.Pods))}
	infos := make([]fwk.PodInfo, len(m.pods))
	for i, pod := range m.pods {
		infos[i], _ = schedframework.NewPodInfo(pod) // the error is about affinity terms, which the decision finds, too
	}
	a := &gang.Attempt{
		Group: g.Group, Needed: g.Needed, On: g.On, Profile: p, Members: infos, Decider: m,
		Memory: &gang.Memory{}, Tree: g.Tree, Leaves: g.Leaves,
	}
	if g.Tree != nil {
		a.Needed = a.Least()
	}
	return a, m
}

// Decide implements gang.Decider.
func (m *Members) Decide(ctx context.Context, i int, within podgroup.Domain) gang.Outcome {
	m.fork.group = m.state
	d, err := m.decide(ctx, within.Restrict(m.pods[i]))
	m.fork.group = nil
	if err != nil {
		return gang.Outcome{Status: StatusOf(err), State: d.State}
	}
	d.Pod = m.pods[i]
	a, class := m.fork.assumed(d)
	if err := a.reserve(ctx); err != nil {
		a.unreserve(ctx)
		return gang.Outcome{Status: fwk.AsStatus(err)}
	}
	m.reserved[i] = a
	return gang.Outcome{Node: d.SuggestedHost, Pod: &schedframework.PodInfo{Pod: a.pod}, Class: class}
}

// StatusOf returns the error of a decision as a status, which is a rejection if the pod fits no
// node.
func StatusOf(err error) *fwk.Status {
	var fitError *schedframework.FitError
	switch {
	case errors.Is(err, algorithm.ErrNoNodesAvailable):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(err)
	case errors.As(err, &fitError):
		return fwk.NewStatus(fwk.Unschedulable).WithError(err)
	}
	return fwk.AsStatus(err)
}

// Unreserve implements gang.Decider.
func (m *Members) Unreserve(ctx context.Context, i int) {
	m.reserved[i].unreserve(ctx)
	m.reserved[i] = nil
}

// Assumed returns the pods that have a node, after the overlay of the attempt was committed.
func (m *Members) Assumed() (assumed []*Assumed) {
	for _, a := range m.reserved {
		if a != nil {
			assumed = append(assumed, a)
		}
	}
	return assumed
}

// Nominate nominates the pods for nodes, those that have one.
func (m *Members) Nominate(nodes []string) {
	for i, node := range nodes {
		nominated := *m.pods[i] // shallow: nothing below the status is changed
		nominated.Status.NominatedNodeName = node
		m.pods[i] = &nominated
	}
}
