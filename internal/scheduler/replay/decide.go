// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/replay/report"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/simulate"
)

// Decide makes the recorded decisions again. A decision is the same if the pod fits on as many
// nodes, if as many share the highest total, which is the same, and if the recorded node is one of
// them: which one was drawn is not recorded. Extenders are not called, and nothing is preempted.
//
// The error is the cause of ctx, or describes how the snapshot contradicts itself.
func (s *State) Decide(ctx context.Context) (*report.Report, error) {
	k, err := s.unnominated.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	decider := k.NewDecider(func(int) int { return 0 }, fork.DeciderOptions{EveryNode: true})
	r := &replayer{past: newPast(s), fork: k, decider: decider}
	out := &report.Report{Decisions: len(s.snapshot.Decisions), Different: []report.Difference{},
		Left: map[report.Reason]int{}}
	for i := range slices.Backward(s.snapshot.Decisions) {
		d := &s.snapshot.Decisions[i]
		for _, pod := range r.past.restore(i) {
			if err := k.SetPod(pod); err != nil {
				return nil, fmt.Errorf("putting the pod %s/%s back on its node: %w", pod.Namespace, pod.Name, err)
			}
		}
		if placed := r.past.takeBack(d); placed != nil {
			if err := k.RemovePod(placed); err != nil {
				return nil, fmt.Errorf("taking the pod %s/%s off its node: %w", placed.Namespace, placed.Name, err)
			}
		}
		difference, left, err := r.again(ctx, d)
		switch {
		case err != nil:
			return nil, err
		case left != "":
			out.Left[left]++
		case difference != nil:
			out.Different = append(out.Different, *difference)
		default:
			out.Same++
		}
	}
	slices.Reverse(out.Different)
	return out, nil
}

// replayer makes decisions again.
type replayer struct {
	past    *past
	fork    *fork.Fork
	decider *fork.Decider
}

// again makes a decision again that has just been taken back. It returns the difference, if there
// is one, or why the decision cannot be made again. The error is the cause of ctx.
func (r *replayer) again(ctx context.Context, d *capture.Decision) (*report.Difference, report.Reason, error) {
	pod := r.past.pods[d.Pod]
	switch {
	case pod == nil:
		return nil, report.PodGone, nil
	case d.Result == decisionlog.Failed.String():
		return nil, report.DecisionFailed, nil
	}
	cfg, left := r.past.profile(d)
	if left == "" {
		left = r.past.reason(d, pod, cfg)
	}
	if left != "" {
		return nil, left, nil
	}
	then := recorded(d)
	now, err := r.decide(ctx, d, cfg, domainOf(d).Restrict(unbound(pod)))
	if err != nil || now == then {
		return nil, "", err
	}
	if excuse := r.past.excuse(d, pod); excuse != "" {
		return nil, excuse, nil
	}
	return &report.Difference{Decision: *d, Namespace: pod.Namespace, Pod: pod.Name, Then: then, Now: now}, "", nil
}

// unbound returns the pod as it was before it was bound: without the labels that binding sets.
func unbound(pod *corev1.Pod) *corev1.Pod {
	unbound := *pod // shallow: nothing below the labels is changed
	podfields.Unassign(&unbound)
	unbound.Status.NominatedNodeName = ""
	if pod.Spec.NodeName == "" {
		return &unbound
	}
	unbound.Labels = map[string]string{}
	for key, value := range pod.Labels {
		if !cache.SetByBinding(key) {
			unbound.Labels[key] = value
		}
	}
	return &unbound
}

// domainOf returns the part of the cluster in which a pod was decided.
func domainOf(d *capture.Decision) (domain podgroup.Domain) {
	for _, label := range d.Domain {
		domain = append(domain, podgroup.DomainLabel(label))
	}
	return domain
}

// decide decides a pod, and describes the decision as recorded does. The error is the cause of ctx.
func (r *replayer) decide(ctx context.Context, d *capture.Decision, cfg *resolve.Profile,
	pod *corev1.Pod) (string, error) {
	instance, err := r.fork.Instance(ctx, cfg)
	if err != nil {
		return err.Error(), context.Cause(ctx)
	}
	now, err := r.decider.Decide(ctx, instance, pod)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case simulate.Refused(err):
		return unfit, nil
	case err != nil:
		return err.Error(), nil
	}
	node := now.SuggestedHost
	if now.IsBest(d.Node) {
		node = d.Node
	}
	if !d.Partial {
		return fits(node, now.FeasibleNodes, now.TiedNodes, now.Total), nil
	}
	if now.FeasibleNodes == 1 {
		return partly(node, d.Total), nil // it has no total now
	}
	return partly(node, now.Total), nil
}

// unfit describes the decision about a pod that fits nowhere.
const unfit = "fits no node"

// recorded describes a recorded decision.
func recorded(d *capture.Decision) string {
	if d.Node == "" {
		return unfit
	}
	if d.Partial {
		return partly(d.Node, d.Total)
	}
	return fits(d.Node, d.Feasible, d.Tied, d.Total)
}

// partly describes a decision for which not all nodes were evaluated.
func partly(node string, total int64) string { return fmt.Sprintf("%s: best with %d", node, total) }

func fits(node string, feasible, tied int, total int64) string {
	return fmt.Sprintf("%s: fits %d, %d best with %d", node, feasible, tied, total)
}
