// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/fork"
)

// preemptOnFork lets a fork preempt for the pod, and returns what it preempts, nil if nothing. The
// fork takes that back, and must then preempt the same again.
func (c *contest) preemptOnFork(pod *corev1.Pod) *fork.Preempted {
	c.t.Helper()
	k := c.fork()
	defer k.Close()
	preempt := func() *fork.Preempted {
		decider := k.NewDecider(func(int) int { return 0 }, fork.DeciderOptions{Preempts: true})
		d, err := decider.Decide(c.ctx, c.instance(k), pod)
		if err == nil {
			return nil
		}
		preempted, err := decider.Preempt(c.ctx, d, err)
		c.must(err)
		return preempted
	}
	first := preempt()
	if first == nil {
		return nil
	}
	c.fits(k, pod, first)
	c.must(first.TakeBack())
	again := preempt()
	if again == nil {
		c.fatalf("the fork preempts pods on %s, and nothing after it has taken that back", first.Node)
	}
	c.equal("what the fork preempts again", []any{first.Node, first.Victims}, []any{again.Node, again.Victims})
	return first
}

// fits expects that the pod fits where the fork has made room. Only two plugins may refuse it
// there, as they may be wrong in a dry run: PodTopologySpread remembers the counts of two domains
// only, and VolumeRestrictions counts a claim once, even if several pods use it.
func (c *contest) fits(k *fork.Fork, pod *corev1.Pod, preempted *fork.Preempted) {
	c.t.Helper()
	for _, victim := range preempted.Victims {
		if k.Pod(victim) != nil {
			c.fatalf("the victim %s is still on %s", victim.Name, preempted.Node)
		}
	}
	refusals, err := k.Refusals(c.ctx, c.instance(k), pod)
	c.must(err)
	i := slices.IndexFunc(refusals.Nodes, func(node fwk.NodeInfo) bool { return node.Node().Name == preempted.Node })
	for _, status := range refusals.ByNode[i] {
		if status.Plugin() != pluginnames.PodTopologySpread && status.Plugin() != pluginnames.VolumeRestrictions {
			c.fatalf("the fork has made room on %s, where the pod is refused: %s", preempted.Node, describe(status))
		}
	}
}

// comparePreempted compares what a fork has preempted with what livesched preempts.
func (c *contest) comparePreempted(preempted *fork.Preempted, got decision) {
	c.t.Helper()
	w := c.ours.preemption
	if w == nil || w.potential == 0 {
		if preempted != nil {
			c.fatalf("the fork preempts pods on %s, livesched looks for none", preempted.Node)
		}
		return
	}
	if w.wanted < w.potential {
		return // they have looked at different nodes
	}
	node := ""
	if got.Nominating != nil {
		node = got.Nominating.NominatedNodeName
	}
	if (preempted == nil) != (node == "") {
		c.fatalf("the fork preempts %+v, livesched nominates %q", preempted, node)
	}
	if preempted == nil {
		return
	}
	c.count["forkPreempted"]++
	c.count["forkVictims"] += len(preempted.Victims)
	victims := w.found[preempted.Node]
	if len(victims) == 0 {
		c.fatalf("the fork preempts pods on %s, where livesched finds none", preempted.Node)
	}
	if node == preempted.Node {
		running := slices.DeleteFunc(slices.Clone(victims),
			func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		c.equal("number of victims", len(running), len(preempted.Victims))
		return
	}
	c.count["forkPreemptionTies"]++
	of := func(node string) []int64 {
		if i := slices.IndexFunc(w.candidates, func(c candidate) bool { return c.node == node }); i >= 0 {
			return w.candidates[i].worth()
		}
		return candidate{node, &extenderv1.Victims{Pods: w.found[node]}}.worth()
	}
	c.equal("worth of the victims", of(node), of(preempted.Node))
}
