// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// moody is a plugin that returns something else each time it is called.
type moody struct {
	name      string
	asked     int
	preFilter int
}

func (c *moody) Name() string { return c.name }

func (c *moody) PreFilter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod,
	_ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c.preFilter++
	if c.preFilter > 1 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "asked again")
	}
	return &fwk.PreFilterResult{NodeNames: sets.New("n0")}, nil
}

func (*moody) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (c *moody) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	c.asked++
	if c.asked > 1 {
		return nil
	}
	return fwk.NewStatus(fwk.Unschedulable, "first")
}

// A plugin may give up when its context ends.
func TestAStatusAfterTheEndOfTheContextIsNotCached(t *testing.T) {
	for calls, once := range map[int]sets.Set[string]{2: nil, 1: sets.New("Named")} {
		named := &moody{name: "Named"}
		f := New(Config{Snapshot: cache.NewSnapshot(), Plugins: &Plugins{Filter: []fwk.FilterPlugin{named}}})
		state := NewAnswers(schedframework.NewCycleState(), sets.New("Named"), once)
		node := schedframework.NewNodeInfo()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if status := f.RunFilterPlugins(ended, state, &corev1.Pod{}, node); status.Message() != "first" {
			t.Errorf("at first: %v", status)
		}
		for range 2 {
			status := f.RunFilterPlugins(t.Context(), state, &corev1.Pod{}, node)
			if status.IsSuccess() != (calls == 2) || named.asked != calls {
				t.Errorf("after %d calls, want %d: %v", named.asked, calls, status)
			}
		}
	}
}

func TestStatusesOfTheNamedPluginsAreCached(t *testing.T) {
	named, other := &moody{name: "Named"}, &moody{name: "Other"}
	f := New(Config{Snapshot: cache.NewSnapshot(), Plugins: &Plugins{
		PreFilter: []fwk.PreFilterPlugin{named}, Filter: []fwk.FilterPlugin{named, other},
	}})
	pod := &corev1.Pod{}
	state := NewAnswers(schedframework.NewCycleState(), sets.New("Named"), nil)
	node, changed := schedframework.NewNodeInfo(), schedframework.NewNodeInfo()

	for range 2 {
		result, status, _ := f.RunPreFilterPlugins(t.Context(), state, pod)
		if !status.IsSuccess() || !result.NodeNames.Equal(sets.New("n0")) {
			t.Errorf("PreFilter: %v, %v", result, status)
		}
		if status := f.RunFilterPlugins(t.Context(), state, pod, node); status.Message() != "first" ||
			status.Plugin() != "Named" {
			t.Errorf("Filter: %v of %q", status, status.Plugin())
		}
	}
	if named.preFilter != 1 || named.asked != 1 || other.asked != 0 {
		t.Errorf("PreFilter was called %d times, Filter %d and %d", named.preFilter, named.asked, other.asked)
	}

	// For another node, and from a caller with other assumptions:
	if status := f.RunFilterPlugins(t.Context(), state, pod, changed); status.Plugin() != "Other" || named.asked != 2 {
		t.Errorf("%v of %q after %d questions", status, status.Plugin(), named.asked)
	}
	if f.RunFilterPlugins(t.Context(), state.Clone(), pod, node); named.asked != 3 {
		t.Errorf("a clone has the plugin asked %d times", named.asked)
	}
	if f.RunFilterPlugins(t.Context(), state, pod, changed); named.asked != 3 || other.asked != 3 {
		t.Errorf("the named plugin was asked %d times, the other %d", named.asked, other.asked)
	}
}

// PreFilter of a plugin whose results at Filter are known runs again only if something reads what
// it writes.
func TestPreFilterOfOnePluginIsDeferred(t *testing.T) {
	const plugin = "Named"
	known, unknown := schedframework.NewNodeInfo(), schedframework.NewNodeInfo()
	refused := fwk.NewStatus(fwk.Unschedulable, "known").WithPlugin(plugin)
	pod := &corev1.Pod{}
	for _, test := range []struct {
		name string
		run  func(context.Context, *Framework, *Answers)
		runs int
	}{
		{"Filter on a node whose result is known", func(ctx context.Context, f *Framework, a *Answers) {
			if status := f.RunFilterPlugins(ctx, a, pod, known); status.Message() != "known" {
				t.Errorf("status %v", status)
			}
		}, 0},
		{"Filter on another node, twice", func(ctx context.Context, f *Framework, a *Answers) {
			f.RunFilterPlugins(ctx, a, pod, unknown)
			f.RunFilterPlugins(ctx, a, pod, unknown)
		}, 1},
		{"PreFilter of all plugins", func(ctx context.Context, f *Framework, a *Answers) {
			f.RunPreFilterPlugins(ctx, a, pod)
		}, 0},
		{"a copy", func(_ context.Context, _ *Framework, a *Answers) { a.Clone() }, 1},
		{"PostFilter of the plugin", func(ctx context.Context, f *Framework, a *Answers) {
			f.RunPostFilterPlugins(ctx, a.CycleState, pod, schedframework.NewDefaultNodeToStatus())
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			postFilter := refusing(plugin)
			f := New(Config{Snapshot: cache.NewSnapshot(), Plugins: &Plugins{
				PreFilter: []fwk.PreFilterPlugin{&moody{name: plugin}}, Filter: []fwk.FilterPlugin{&moody{name: plugin}},
				PostFilter: []fwk.PostFilterPlugin{&postFilter}}})
			a := NewAnswers(schedframework.NewCycleState(), sets.New(plugin), nil)
			runs := 0
			a.DeferPreFilterOf(quiet(t), plugin, func(context.Context, fwk.CycleState) error { runs++; return nil })
			a.Remember(plugin, known, refused)
			test.run(quiet(t), f, a)
			expect(t, "runs", runs, test.runs)
		})
	}
}
