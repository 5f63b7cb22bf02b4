// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/queue"
)

// explainPending explains why a pod is pending, by a decision that it makes on a fork. If node is
// not "", it compares that node with the others.
func (a *Answers) explainPending(ctx context.Context, pod *corev1.Pod, node string) (*v1alpha1.PodExplanation, error) {
	in, err := a.pending(pod)
	if err != nil {
		return nil, err
	}
	k, err := a.Forker.Fork(ctx)
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

// pending returns what the queue and the binding cycle know of a pod.
func (a *Answers) pending(pod *corev1.Pod) (explain.Pending, error) {
	in := explain.Pending{Pod: pod, Now: a.Clock.Now(), NominatedNode: pod.Status.NominatedNodeName}
	if wait, ok := a.Queue.Wait(pod.UID); ok {
		in.Wait = &wait
	}
	for _, nomination := range a.Queue.Nominator().Dump() {
		if nomination.Pod.UID == pod.UID {
			in.NominatedNode = nomination.Node
		}
	}
	if waiting := a.WaitingPods.Get(pod.UID); waiting != nil {
		in.PermitPlugins = waiting.GetPendingPlugins()
		slices.Sort(in.PermitPlugins)
	}
	var err error
	if in.Wait != nil && in.Wait.Group != nil && in.Wait.Place != queue.InFlight {
		in.Group, err = a.groupOf(pod, in.Wait.Group)
	}
	return in, err
}

// groupOf returns the group that a pod is placed with: see explain.GroupOf.
func (a *Answers) groupOf(pod *corev1.Pod, wait *queue.GroupWait) (*fork.Group, error) {
	pods, err := a.Pods.Pods(pod.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	g := explain.GroupOf(a.Groups, wait.Key, pod.Spec.SchedulerName, pods,
		func(p *corev1.Pod) bool { return a.Queue.Ready(p.UID) })
	if g != nil {
		g.Needed = wait.Needed
	}
	return g, nil
}
