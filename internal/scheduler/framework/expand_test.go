// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

func set(names ...string) schedconfig.PluginSet {
	var s schedconfig.PluginSet
	for _, name := range names {
		s.Enabled = append(s.Enabled, schedconfig.Plugin{Name: name})
	}
	return s
}

func TestNeeded(t *testing.T) {
	cfg := &schedconfig.Plugins{
		MultiPoint:     set("Fit", "Sort"),
		Score:          schedconfig.PluginSet{Disabled: []schedconfig.Plugin{{Name: "Scores"}}},
		Bind:           set("Binds"),
		PlacementScore: set("Placed", "Fit"),
	}
	want := sets.New("Fit", "Sort", "Binds", "Placed")
	if diff := cmp.Diff(want, Needed(cfg)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	expect(t, "of nothing", Needed(nil).Len(), 0)
}

func TestExpandOrderAndWeights(t *testing.T) {
	multi := set("Sort", "Binds", "Scores", "Fit", "Volumes", "Score")
	multi.Enabled[2].Weight, multi.Enabled[3].Weight = 7, 9
	score := set("SortToo", "Fit")
	score.Enabled[1].Weight = 3
	score.Disabled = []schedconfig.Plugin{{Name: "Volumes"}}
	cfg := &schedconfig.Plugins{MultiPoint: multi, Score: score}

	plugins, err := Expand(cfg, shapes())
	if err != nil {
		t.Fatal(err)
	}
	want := []schedconfig.Plugin{
		{Name: "Fit", Weight: 3},     // overridden: comes first, with the extension point's weight
		{Name: "Scores", Weight: 7},  // then the others of multiPoint
		{Name: "Score", Weight: 1},   // no weight is 1
		{Name: "SortToo", Weight: 1}, // then those that only the extension point has
	}
	if diff := cmp.Diff(want, plugins.Configured().Score.Enabled); diff != "" {
		t.Errorf("Score (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"Fit": 3, "Scores": 7, "Score": 1, "SortToo": 1},
		plugins.ScoreWeights); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
	var all []string
	for _, pl := range plugins.All {
		all = append(all, pl.Name())
	}
	if diff := cmp.Diff([]string{"Binds", "Fit", "Score", "Scores", "Sort", "SortToo", "Volumes"}, all); diff != "" {
		t.Errorf("All (-want +got):\n%s", diff)
	}
}

func TestExpandNamesPluginAndExtensionPoint(t *testing.T) {
	base := func(change func(*schedconfig.Plugins)) *schedconfig.Plugins {
		cfg := &schedconfig.Plugins{QueueSort: set("Sort"), Bind: set("Binds")}
		change(cfg)
		return cfg
	}
	for _, test := range []struct {
		name string
		cfg  *schedconfig.Plugins
		want []string
	}{
		{"nothing is configured", nil, []string{
			"extension point QueueSort: no plugin is enabled, at least one is needed",
			"extension point Bind: no plugin is enabled, at least one is needed",
		}},
		{"two plugins sort the queue",
			base(func(c *schedconfig.Plugins) { c.QueueSort = set("Sort", "SortToo") }),
			[]string{"extension point QueueSort: only one plugin can be enabled, got Sort, SortToo"}},
		{"two plugins generate placements",
			base(func(c *schedconfig.Plugins) { c.PlacementGenerate = set("Gang", "Placed") }),
			[]string{"extension point PlacementGenerate: only one plugin can be enabled, got Gang, Placed"}},
		{"unknown plugins are all named, with their places",
			base(func(c *schedconfig.Plugins) { c.MultiPoint = set("Foo"); c.Filter = set("Bar", "Filter") }),
			[]string{`multiPoint: plugin "Foo" is not known`, `extension point Filter: plugin "Bar" is not known`}},
		{"a plugin is put where it cannot run",
			base(func(c *schedconfig.Plugins) { c.PreFilter = set("Score") }),
			[]string{`extension point PreFilter: plugin "Score" does not implement it`}},
		{"a plugin is listed twice at an extension point",
			base(func(c *schedconfig.Plugins) { c.Permit = set("Gang", "Gang") }),
			[]string{`extension point Permit: plugin "Gang" is listed twice`}},
		{"multiPoint lists a plugin twice",
			base(func(c *schedconfig.Plugins) { c.MultiPoint = set("Filter", "Filter") }),
			[]string{`extension point Filter: multiPoint lists plugin "Filter" twice`}},
		{"a plugin has another name than its configuration",
			base(func(c *schedconfig.Plugins) { c.Score = set("Alias") }),
			[]string{`extension point Score: plugin "Renamed" has no weight, as it is configured under another name`}},
		{"problems at several extension points are reported together",
			base(func(c *schedconfig.Plugins) { c.PreScore, c.Reserve = set("Gang"), set("Filter") }),
			[]string{
				`extension point PreScore: plugin "Gang" does not implement it`,
				`extension point Reserve: plugin "Filter" does not implement it`,
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			plugins, err := Expand(test.cfg, shapes())
			if err == nil {
				t.Fatalf("no error, but %+v", plugins.Configured())
			}
			expect(t, "error", err.Error(), strings.Join(test.want, "\n"))
		})
	}
}

func TestExpandTakesNilInstancesForUnknown(t *testing.T) {
	_, err := Expand(&schedconfig.Plugins{Bind: set("Binds")}, map[string]fwk.Plugin{"Binds": nil})
	if err == nil || err.Error() != `extension point Bind: plugin "Binds" is not known` {
		t.Errorf("got %v", err)
	}
}

func TestDefaultEnqueueExtensionsAskForSpecificEvents(t *testing.T) {
	ext := DefaultEnqueueExtensions("Filter")
	expect(t, "name", ext.Name(), "Filter")
	events, err := ext.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	resources := sets.New[fwk.EventResource]()
	for _, e := range events {
		if e.Event.Resource == fwk.WildCard || e.Event.ActionType != fwk.All || e.QueueingHintFn != nil {
			t.Errorf("unexpected event %+v", e)
		}
		resources.Insert(e.Event.Resource)
	}
	if !resources.HasAll(fwk.AssignedPod, fwk.UnscheduledPod, fwk.TargetPod, fwk.Node,
		fwk.PersistentVolumeClaim, fwk.ResourceClaim) {
		t.Errorf("only %v are asked for", resources)
	}
}
