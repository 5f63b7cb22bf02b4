// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// ExplainPending explains why a pod is pending, on a fork that is made for it. If node is not "",
// it compares that node with the others. It works on every replica. A replica that does not lead
// knows what the pod's next decision would be, but not how often the leader has tried it.
//
// The error is an apierrors.APIStatus if this replica cannot answer yet, if the pod is bound, or if
// there is no such node.
func (s *Scheduler) ExplainPending(ctx context.Context, pod *corev1.Pod, node string) (*v1alpha1.PodExplanation, error) {
	select {
	case <-s.ready:
	default:
		return nil, apierrors.NewServiceUnavailable("livesched has not listed the cluster yet")
	}
	if pod.Spec.NodeName != "" {
		return nil, apierrors.NewBadRequest("the pod is bound")
	}
	in := explain.Pending{Pod: pod, Now: s.cfg.Clock.Now(), NominatedNode: pod.Status.NominatedNodeName}
	if wait, ok := s.parts.queue.Wait(pod.UID); ok {
		in.Wait = &wait
	}
	for _, nomination := range s.parts.queue.Nominator().Dump() {
		if nomination.Pod.UID == pod.UID {
			in.NominatedNode = nomination.Node
		}
	}
	if waiting := s.parts.env.WaitingPods.Get(pod.UID); waiting != nil {
		in.PermitPlugins = waiting.GetPendingPlugins()
		slices.Sort(in.PermitPlugins)
	}
	if in.Wait != nil && in.Wait.Group != nil && in.Wait.Place != queue.InFlight {
		group, err := s.groupOf(pod, in.Wait.Group)
		if err != nil {
			return nil, err
		}
		in.Group = group
	}
	k, err := s.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	x, err := explain.Explain(ctx, k, in)
	if err == nil && node != "" && x.Verdict != v1alpha1.VerdictUnknown {
		x.Node, err = explainNode(ctx, k, pod, node)
	}
	return x.PodExplanation, err
}

// explainNode compares a node with the others that a pod fits on. The fork must not be used
// afterwards.
func explainNode(ctx context.Context, k *fork.Fork, pod *corev1.Pod, name string) (*v1alpha1.NodeExplanation, error) {
	x, err := explain.Node(ctx, k, pod, name)
	if none := (*explain.NoNodeError)(nil); errors.As(err, &none) {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return x, err
}

// groupOf returns the group that a pod is placed with, or nil if its pods are scheduled one by one,
// or if it has no object.
func (s *Scheduler) groupOf(pod *corev1.Pod, wait *queue.GroupWait) (*explain.Group, error) {
	group, nodes, known := s.parts.loop.Groups.Get(wait.Key)
	if !known || group.OneByOne {
		return nil, nil
	}
	pods, err := s.parts.pods.Pods(pod.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	g := &explain.Group{Group: group, Nodes: nodes, Needed: wait.Needed}
	for _, member := range pods {
		if podgroup.KeyOf(member) == wait.Key && member.Spec.SchedulerName == pod.Spec.SchedulerName && s.parts.queue.Ready(member.UID) {
			g.Pods = append(g.Pods, member)
		}
	}
	return g, nil
}
