// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// forkCases is the number of cases with forks.
const forkCases = 25

// TestForkDecidesAsTheScheduler asks forks of livesched what livesched and kube-scheduler are
// asked. Other forks are changed at random: if that changed livesched, too, it would differ from
// kube-scheduler from then on.
func TestForkDecidesAsTheScheduler(t *testing.T) {
	p := playCases(t, forkCases, func(c *contest) {
		// The search for some of the nodes begins where the last one ended.
		if !c.sampled && c.ours.Profile.Framework.HasScorePlugins() {
			c.playWithForks()
		}
	})
	p.mustShow(t, "forkPlaced", "forkUnplaced", "forkAssumed", "forkRefusals", "forkSecondRefusals", "forkPreempted",
		"forkVictims")
}

func (c *contest) playWithForks() {
	c.t.Helper()
	c.fill(10+c.IntN(30), 1+c.IntN(12))
	handlers := c.ours.Informers.Handlers()
	for i := range 8 {
		c.at = fmt.Sprintf("pod %d", i)
		pod := c.newPod().DeepCopy()
		c.promote(pod)
		c.put(pod)
		c.disturb(c.fork(), pod)
		k := c.fork()
		d, err := k.Decide(c.ctx, c.instance(k), pod)
		c.equal("event handlers while there is a fork", handlers, c.ours.Informers.Handlers())
		preempted := c.preemptOnFork(pod)
		got := c.decide(pod)
		if c.parted {
			return
		}
		c.compareFork(pod, d, err, got)
		c.comparePreempted(preempted, got)
		c.compareRefusals(k, pod)
		c.compareAssumed(k, d, err)
		k.Close()
		c.equal("event handlers that are left", handlers, c.ours.Informers.Handlers())
		c.afterwards(pod, got)
		c.happen()
	}
}

func (c *contest) fork() *fork.Fork {
	k, err := c.ours.Forker.Fork(c.ctx)
	c.must(err)
	return k
}

func (c *contest) instance(k *fork.Fork) *profile.Instance {
	cfg, err := k.Profile(schedulerName)
	c.must(err)
	p, err := k.Instance(c.ctx, cfg)
	c.must(err)
	return p
}

// compareFork compares the decision of a fork with livesched's.
func (c *contest) compareFork(pod *corev1.Pod, d fork.Decision, err error, got decision) {
	c.t.Helper()
	if err != nil || got.Err != nil {
		c.count["forkUnplaced"]++
		var forks, livescheds *schedframework.FitError
		if !errors.As(err, &forks) || !errors.As(got.Err, &livescheds) {
			c.equal("error of the fork", fmt.Sprint(got.Err), fmt.Sprint(err))
			return
		}
		want := livescheds.Diagnosis
		want.PostFilterMsg = "" // a fork does not preempt
		c.equal("diagnosis of the fork", want, forks.Diagnosis)
		return
	}
	c.count["forkPlaced"]++
	c.equal("evaluated and feasible nodes of the fork", []int{got.Evaluated, got.Feasible},
		[]int{d.EvaluatedNodes, d.FeasibleNodes})
	if len(got.fit) == 0 {
		c.equal("choice of the fork", got.Host, d.SuggestedHost)
		return
	}
	want, status := c.ours.Profile.Framework.RunScorePlugins(c.ctx, got.State, pod, inOrder(got.fit))
	c.mustStatus(status)
	byName := func(a, b fwk.NodePluginScores) int { return strings.Compare(a.Name, b.Name) }
	c.equal("scores of the fork", want, slices.SortedFunc(slices.Values(d.Scores), byName))
	best := slices.MaxFunc(d.Scores, func(a, b fwk.NodePluginScores) int { return int(a.TotalScore - b.TotalScore) })
	for _, node := range d.Scores {
		if node.Name == d.SuggestedHost && node.TotalScore != best.TotalScore {
			c.fatalf("the fork chose %s, which is not the best", d.SuggestedHost)
		}
	}
}

// compareRefusals compares all refusals of a fork with the refusals of each plugin of livesched,
// which is run on its own.
func (c *contest) compareRefusals(k *fork.Fork, pod *corev1.Pod) {
	c.t.Helper()
	refusals, err := k.Refusals(c.ctx, c.instance(k), pod)
	c.must(err)
	want := map[string]map[string]*fwk.Status{}
	for _, node := range refusals.Nodes {
		want[node.Node().Name] = map[string]*fwk.Status{}
	}
	c.refresh()
	for _, name := range pluginNames(c.ours.Profile) {
		c.refusalsOf(name, pod, want)
	}
	for i, node := range refusals.Nodes {
		seen, alone := map[string]string{}, map[string]string{}
		for plugin, status := range want[node.Node().Name] {
			alone[plugin] = describe(status)
		}
		for _, status := range refusals.ByNode[i] {
			seen[status.Plugin()] = describe(status)
		}
		c.equal("refusals on "+node.Node().Name, alone, seen)
		c.count["forkRefusals"] += len(seen)
		c.count["forkSecondRefusals"] += max(0, len(seen)-1)
		fit, err := k.FirstFit(c.ctx, c.instance(k), pod, node.Node().Name)
		c.must(err)
		c.equal("fit on "+node.Node().Name, len(seen) == 0, fit != "")
	}
}

func pluginNames(p *profile.Instance) []string {
	var names []string
	for _, pl := range p.Framework.Plugins().All {
		names = append(names, pl.Name())
	}
	return names
}

// refusalsOf adds the refusals of one plugin by node. It reports whether the plugin refuses the pod
// before it is asked about nodes.
func (c *contest) refusalsOf(plugin string, pod *corev1.Pod, by map[string]map[string]*fwk.Status) (ofPod bool) {
	c.t.Helper()
	part := c.ours.Profile.Framework.Part(func(pl fwk.Plugin) bool { return pl.Name() == plugin })
	state := schedframework.NewCycleState()
	allowed, status, _ := part.RunPreFilterPlugins(c.ctx, state, pod)
	emptied := allowed != nil && allowed.NodeNames != nil && len(allowed.NodeNames) == 0
	ofPod = !status.IsSuccess() && !emptied
	for name := range by {
		node, err := c.ours.Snapshot.Get(name)
		c.must(err)
		refusal := status
		if !ofPod {
			refusal = part.RunFilterPluginsWithNominatedPods(c.ctx, state, pod, node)
			if !allowed.AllNodes() && !allowed.NodeNames.Has(name) {
				refusal = fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
					fmt.Sprintf("node(s) didn't satisfy plugin %v", plugin))
			}
		}
		if !refusal.IsSuccess() {
			by[name][plugin] = refusal.WithPlugin(plugin)
		}
	}
	return ofPod
}

// compareAssumed assumes the pod, and takes it back: then the fork decides as before.
func (c *contest) compareAssumed(k *fork.Fork, d fork.Decision, err error) {
	c.t.Helper()
	if err != nil {
		return
	}
	assumed, err := k.Assume(c.ctx, d)
	c.must(err)
	c.count["forkAssumed"]++
	if k.Pod(d.Pod) == nil || !k.IsAssumed(d.Pod) {
		c.fatalf("the pod is not assumed in the fork")
	}
	c.must(assumed.TakeBack(c.ctx))
	again, err := k.Decide(c.ctx, d.Profile, d.Pod)
	c.must(err)
	c.equal("feasible nodes of the fork", d.FeasibleNodes, again.FeasibleNodes)
	c.equal("scores of the fork", sortedScores(d), sortedScores(again))
}

func sortedScores(d fork.Decision) []fwk.NodePluginScores {
	return slices.SortedFunc(slices.Values(d.Scores),
		func(a, b fwk.NodePluginScores) int { return strings.Compare(a.Name, b.Name) })
}

// disturb changes a fork.
func (c *contest) disturb(k *fork.Fork, pod *corev1.Pod) {
	c.t.Helper()
	defer k.Close()
	snapshot, err := k.Snapshot()
	c.must(err)
	nodes, err := snapshot.List()
	c.must(err)
	for _, node := range nodes {
		for _, info := range slices.Clone(node.GetPods()) {
			if c.chance(30) {
				c.must(k.RemovePod(info.GetPod()))
			}
		}
		switch c.IntN(4) {
		case 0:
			c.must(k.RemoveNode(node.Node()))
		case 1:
			changed := node.Node().DeepCopy()
			changed.Spec.Unschedulable = !changed.Spec.Unschedulable
			k.SetNode(changed)
		}
	}
	if d, err := k.Decide(c.ctx, c.instance(k), pod); err == nil {
		_, _ = k.Assume(c.ctx, d) // a plugin may refuse it
	}
}
