// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/test/workload"
)

func unchanged(*schedconfig.KubeSchedulerProfile) {}

// sharingNodes is the number of nodes of a newSharingWorld.
const sharingNodes = 30

// newSharingWorld returns a world of equal nodes.
func newSharingWorld(t *testing.T) *world {
	w := newWorld(t, seed, 0)
	for i := range sharingNodes {
		w.cache.AddNode(klog.FromContext(w.ctx), workload.Node(i))
	}
	return w
}

// classOf decides about a pod on the fast path alone, and returns its class.
func (w *world) classOf(p Params, pod *corev1.Pod) cache.ClassID {
	w.t.Helper()
	w.must(w.cache.UpdateSnapshot(klog.FromContext(w.ctx), w.snapshot))
	fast := w.ours.tryFast(w.ctx, p, schedframework.NewCycleState(), pod)
	if fast.reason != fastpath.None {
		w.t.Fatalf("the pod takes the scalar path: %s", fast.reason)
	}
	return fast.Class.ID
}

// calls returns how often a profile's TaintToleration has filtered a node.
func (w *world) calls(of Params) int {
	w.t.Helper()
	counter := schedmetrics.PluginEvaluationTotal.WithLabelValues("TaintToleration", schedmetrics.Filter,
		of.Framework.ProfileName())
	n, err := testutil.GetCounterMetricValue(counter)
	w.must(err)
	return int(n)
}

func TestProfilesThatDecideAlikeShareRows(t *testing.T) {
	for name, scene := range map[string]struct {
		change func(*schedconfig.KubeSchedulerProfile)
		shared bool
	}{
		"equal": {unchanged, true},
		"another plugin after the decision": {func(p *schedconfig.KubeSchedulerProfile) {
			p.Plugins.PostFilter.Disabled = []schedconfig.Plugin{{Name: "DefaultPreemption"}}
		}, true},
		"other weights": {func(p *schedconfig.KubeSchedulerProfile) {
			p.Plugins.Score.Enabled = append(p.Plugins.Score.Enabled,
				schedconfig.Plugin{Name: "TaintToleration", Weight: 7})
		}, false},
		"other arguments": {otherArgs, false},
		"a plugin less": {func(p *schedconfig.KubeSchedulerProfile) {
			p.Plugins.Filter.Disabled = []schedconfig.Plugin{{Name: "NodePorts"}}
			p.Plugins.PreFilter.Disabled = []schedconfig.Plugin{{Name: "NodePorts"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSharingWorld(t)
			one, other := w.profile(name+", one", unchanged), w.profile(name+", other", scene.change)
			before := w.calls(other)
			same := w.classOf(one, podOf("owned", 0)) == w.classOf(other, podOf("owned", 0))
			if same != scene.shared {
				t.Errorf("the pods of the two profiles are of one class: %t", same)
			}
			if n := w.calls(other) - before; (n == 0) != scene.shared {
				t.Errorf("the second profile's plugin was called for %d nodes", n)
			}
		})
	}
}

// TestProfilesWithPluginsOfTheirOwnShareNothing: such a plugin may read more than its arguments
// when it is built.
func TestProfilesWithPluginsOfTheirOwnShareNothing(t *testing.T) {
	w := newSharingWorld(t)
	withParity := func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.Filter.Enabled = append(p.Plugins.Filter.Enabled, schedconfig.Plugin{Name: "Parity"})
	}
	one, other := w.profile("one", withParity), w.profile("other", withParity)
	if w.classOf(one, podOf("owned", 0)) == w.classOf(other, podOf("owned", 0)) {
		t.Error("the pods of the two profiles are of one class")
	}
}

// TestSharedRowsAreKeptUpByTheProfileThatDecides closes the profile that the rows were made for.
func TestSharedRowsAreKeptUpByTheProfileThatDecides(t *testing.T) {
	w := newSharingWorld(t)
	first, second := w.profile("first", unchanged), w.profile("second", unchanged)
	class := w.classOf(first, podOf("owned", 0))
	if w.classOf(second, podOf("owned", 1)) == 0 {
		t.Fatal("no class")
	}
	close(w.closed["first"])
	delete(w.closed, "first")
	before, beforeSecond := w.calls(first), w.calls(second)
	changed := workload.Node(0).DeepCopy()
	changed.Spec.Taints = []corev1.Taint{{Key: "key", Effect: corev1.TaintEffectPreferNoSchedule}}
	w.cache.UpdateNode(klog.FromContext(w.ctx), workload.Node(0), changed)
	if got := w.classOf(second, podOf("owned", 0)); got != class {
		t.Error("the class was dropped with the profile that it was made for, although another one uses it")
	}
	if got := w.calls(second) - beforeSecond; got != 1 {
		t.Errorf("the plugin of the profile that decides was called for %d nodes, want the one that changed", got)
	}
	if got := w.calls(first) - before; got != 0 {
		t.Errorf("the plugin of the profile that is closed was called for %d nodes", got)
	}
	// A profile that comes and the one that goes leave the rows alone.
	third := w.profile("third", unchanged)
	if got := w.classOf(third, podOf("owned", 0)); got != class {
		t.Error("the class was dropped although a profile uses it")
	}
	close(w.closed["second"])
	close(w.closed["third"])
	clear(w.closed)
	w.classOf(w.profile("fourth", otherArgs), podOf("owned", 0))
	if got := w.classOf(w.profile("fifth", unchanged), podOf("owned", 0)); got == class {
		t.Error("the class was kept although all profiles that used it were closed")
	}
}

func otherArgs(p *schedconfig.KubeSchedulerProfile) {
	for i := range p.PluginConfig {
		if args, ok := p.PluginConfig[i].Args.(*schedconfig.InterPodAffinityArgs); ok {
			args.HardPodAffinityWeight = 7
		}
	}
}

// TestAReloadThatChangesNoDecisionKeepsClasses builds the same profile again, as a change of its
// queue does.
func TestAReloadThatChangesNoDecisionKeepsClasses(t *testing.T) {
	w := newSharingWorld(t)
	class := w.classOf(w.profile("mine", unchanged), podOf("owned", 0))
	again := w.profile("mine", unchanged)
	before := w.calls(again)
	if got := w.classOf(again, podOf("owned", 0)); got != class || w.calls(again) != before {
		t.Error("the class was made again")
	}
	if got := w.classOf(w.profile("mine", otherArgs), podOf("owned", 0)); got == class {
		t.Error("the class was kept although arguments have changed")
	}
}
