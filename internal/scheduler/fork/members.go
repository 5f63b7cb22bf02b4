// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fork

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/gang"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// BeginOverlay opens an overlay on the snapshot of the fork. While it is open, the snapshot shows
// no other changes of the fork.
func (k *Fork) BeginOverlay() (*cache.Overlay, error) {
	return k.cache.BeginOverlay(k.logger, k.snapshot)
}

// Members decide the pods of a group on a fork, for an attempt to place them together.
type Members struct {
	// Pods are those of the group.
	Pods []*corev1.Pod

	fork   *Fork
	decide func(context.Context, *corev1.Pod) (Decision, error)
	// reserved are the pods that have a node. The others are nil.
	reserved []*Assumed
}

var _ gang.Decider = &Members{}

// NewMembers returns the Decider of a group. decide decides one of its pods.
func (k *Fork) NewMembers(pods []*corev1.Pod, decide func(context.Context, *corev1.Pod) (Decision, error)) *Members {
	return &Members{Pods: pods, fork: k, decide: decide, reserved: make([]*Assumed, len(pods))}
}

// Infos returns the pods as the members of an attempt.
func (m *Members) Infos() []fwk.PodInfo {
	infos := make([]fwk.PodInfo, len(m.Pods))
	for i, pod := range m.Pods {
		infos[i], _ = schedframework.NewPodInfo(pod) // the error is about affinity terms, which the decision finds, too
	}
	return infos
}

// Decide implements gang.Decider.
func (m *Members) Decide(ctx context.Context, i int, within podgroup.Domain) gang.Outcome {
	d, err := m.decide(ctx, within.Restrict(m.Pods[i]))
	if err != nil {
		return gang.Outcome{Status: StatusOf(err), State: d.State}
	}
	d.Pod = m.Pods[i]
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
		nominated := *m.Pods[i] // shallow: nothing below the status is changed
		nominated.Status.NominatedNodeName = node
		m.Pods[i] = &nominated
	}
}
