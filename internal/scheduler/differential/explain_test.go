// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
)

// explainCases is the number of cases with explanations.
const explainCases = 30

// TestExplanationsHoldForKubeScheduler explains pods that fit nowhere. Each suggestion is then
// followed in the clusters of both schedulers, which must find a node for the pod; and the verdict
// is compared with what they decide when nodes are emptied.
func TestExplanationsHoldForKubeScheduler(t *testing.T) {
	p := playCases(t, explainCases, (*contest).playWithExplanations)
	p.mustShow(t,
		"verdict NeverFits", "verdict FitsWhenFreed", "verdict WaitingForTurn", "suggested Free", "suggested AddNode",
		"suggested RelaxNodeAffinity",
		"suggested RelaxPodAffinity", "suggested RemoveTaint", "suggested Tolerate")
}

func (c *contest) playWithExplanations() {
	c.t.Helper()
	c.fill(10+c.IntN(20), 4+c.IntN(14))
	for i := range 12 {
		c.at = fmt.Sprintf("pod %d", i)
		pod := c.newPod().DeepCopy()
		if c.chance(50) {
			c.demandMore(pod)
		}
		c.put(pod)
		k := c.fork()
		before := c.everywhere(k, pod)
		x, err := explain.Explain(c.ctx, k, explain.Pending{Pod: pod, Now: time.Now(), SuggestFor: time.Minute})
		c.must(err)
		c.equal("refusals on the fork afterwards", before, c.everywhere(k, pod))
		c.count["verdict "+string(x.Verdict)]++
		c.checkGroups(x, before)
		c.checkVerdict(x, pod)
		for i, suggestion := range x.Pending.Suggestions {
			c.count["suggested "+string(suggestion.Type)]++
			if suggestion.Type == v1alpha1.SuggestionCreateClaim {
				continue // it cannot be tried
			}
			c.follow(pod, suggestion, x.Changes[i])
		}
		k.Close()
		if c.parted {
			return
		}
	}
}

// demandMore makes it harder to place the pod.
func (c *contest) demandMore(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		if cpu, ok := pod.Spec.Containers[i].Resources.Requests[corev1.ResourceCPU]; ok {
			cpu.Add(cpu)
			cpu.Add(cpu)
			pod.Spec.Containers[i].Resources.Requests[corev1.ResourceCPU] = cpu
		}
	}
}

// everywhere returns the refusals of a fork, by node.
func (c *contest) everywhere(k *fork.Fork, pod *corev1.Pod) map[string][]string {
	c.t.Helper()
	refusals, err := k.Refusals(c.ctx, c.instance(k), pod)
	c.must(err)
	all := map[string][]string{}
	for i, node := range refusals.Nodes {
		texts := []string{}
		for _, status := range refusals.ByNode[i] {
			texts = append(texts, describe(status))
		}
		slices.Sort(texts)
		all[node.Node().Name] = texts
	}
	return all
}

// checkGroups expects each node that refuses the pod in one group, unless only the pod itself is
// refused.
func (c *contest) checkGroups(x explain.Explanation, refusals map[string][]string) {
	c.t.Helper()
	refused, own, grouped := 0, 0, 0
	for _, texts := range refusals {
		if len(texts) > 0 {
			refused++
		}
		if len(texts) > len(x.Pending.PodRefusals) {
			own++
		}
	}
	for _, group := range x.Pending.Groups {
		grouped += int(group.Nodes)
		all := len(group.Refusals) + len(x.Pending.PodRefusals)
		if group.Partial {
			c.equal("more refusals than in the group", true, all <= len(refusals[group.Example]))
			continue
		}
		c.equal("refusals of "+group.Example, len(refusals[group.Example]), all)
	}
	c.equal("nodes in groups", own, grouped)
	c.equal("feasible nodes", len(refusals)-refused, int(x.Feasible))
}

// checkVerdict compares the verdict with decisions on forks in which a node, or all, are emptied.
func (c *contest) checkVerdict(x explain.Explanation, pod *corev1.Pod) {
	c.t.Helper()
	switch x.Verdict {
	case v1alpha1.VerdictWaitingForTurn:
		c.equal("fits", true, x.Feasible > 0)
	case v1alpha1.VerdictNeverFits, v1alpha1.VerdictFitsWhenFreed:
		freed := c.fitsWhenEmptied(pod, "")
		for name := range c.nodes {
			freed = freed || c.fitsWhenEmptied(pod, name)
		}
		for _, s := range x.Pending.Suggestions {
			freed = freed || s.Type == v1alpha1.SuggestionFree // which follow checks
		}
		c.equal("fits when freed", freed, x.Verdict == v1alpha1.VerdictFitsWhenFreed)
	default:
		c.fatalf("verdict %s: %s", x.Verdict, x.Message)
	}
}

// fitsWhenEmptied reports whether the pod fits on a node without pods, or, without a name, on any
// node if none has pods.
func (c *contest) fitsWhenEmptied(pod *corev1.Pod, name string) bool {
	c.t.Helper()
	k := c.fork()
	defer k.Close()
	k.SuspendNominations()
	snapshot, err := k.Snapshot()
	c.must(err)
	nodes, err := snapshot.List()
	c.must(err)
	var emptied []string
	for _, node := range nodes {
		if name != "" && node.Node().Name != name {
			continue
		}
		emptied = append(emptied, node.Node().Name)
		for _, info := range slices.Clone(node.GetPods()) {
			c.must(k.RemovePod(info.GetPod()))
		}
	}
	fit, err := k.FirstFit(c.ctx, c.instance(k), pod, emptied...)
	c.must(err)
	return fit != ""
}

// follow makes the suggested change in both clusters, lets both schedulers decide, and undoes it.
func (c *contest) follow(pod *corev1.Pod, suggestion v1alpha1.Suggestion, change explain.Change) {
	c.t.Helper()
	if !suggestion.Verified || suggestion.Description == "" {
		c.fatalf("a suggestion is not verified, or has no text: %+v", suggestion)
	}
	decided := pod
	if change.Pod != nil {
		decided = change.Pod
		c.put(decided)
	}
	for _, victim := range change.Removed {
		c.takeOff(victim)
		defer c.putOn(victim)
	}
	if node := change.Node; node != nil {
		if original := c.nodes[node.Name]; original != nil {
			c.updateNode(node)
			defer c.updateNode(original)
		} else {
			c.addNode(node)
			defer c.removeNode(node.Name)
		}
	}
	got := c.decide(decided)
	if got.Host == "" {
		c.fatalf("following %q, the pod fits nowhere: %v", suggestion.Description, got.Err)
	}
	if change.Pod != nil {
		c.put(pod)
	}
}

// takeOff and putOn only change the caches: the pod may be assumed, and it comes back.
func (c *contest) takeOff(pod *corev1.Pod) {
	c.t.Helper()
	c.mustBoth(c.theirs.Scheduler.Cache.RemovePod(logr.Discard(), pod), c.ours.Cache.RemovePod(logr.Discard(), pod))
}

func (c *contest) putOn(pod *corev1.Pod) {
	c.mustBoth(c.theirs.Scheduler.Cache.AddPod(logr.Discard(), pod), c.ours.Cache.AddPod(logr.Discard(), pod))
}
