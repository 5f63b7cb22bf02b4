// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// Plugins holds the plugin instances of each extension point, in the order in which they run.
// Expand creates it; afterwards it is immutable, so any number of goroutines may read it.
type Plugins struct {
	PreEnqueue []fwk.PreEnqueuePlugin
	QueueSort  fwk.QueueSortPlugin
	PreFilter  []fwk.PreFilterPlugin
	Filter     []fwk.FilterPlugin
	PostFilter []fwk.PostFilterPlugin
	PreScore   []fwk.PreScorePlugin
	Score      []fwk.ScorePlugin
	// ScoreWeights holds the weight of each Score plugin, by plugin name.
	ScoreWeights map[string]int64
	Reserve      []fwk.ReservePlugin
	Permit       []fwk.PermitPlugin
	PreBind      []fwk.PreBindPlugin
	Bind         []fwk.BindPlugin
	PostBind     []fwk.PostBindPlugin

	// The extension points of pod group scheduling are expanded, so that a configuration that names
	// them is checked as kube-scheduler checks it. livesched schedules groups by itself,
	// and runs of them only the plugin for devices, at PodGroupPostFilter. Groups preempt only if
	// DefaultPreemption is there.
	PlacementGenerate     []fwk.PlacementGeneratePlugin
	PlacementScore        []fwk.PlacementScorePlugin
	PlacementScoreWeights map[string]int64
	PodGroupPostFilter    []fwk.PodGroupPostFilterPlugin

	// All holds every instance that the configuration enables anywhere, once each, sorted by
	// configured name. It includes plugins that are disabled at all their extension points.
	All []fwk.Plugin
}

// Needed returns the names of the plugins that a configuration enables, through MultiPoint or at
// any extension point: these must be built for it.
func Needed(cfg *schedconfig.Plugins) sets.Set[string] {
	needed := sets.New[string]()
	if cfg == nil {
		return needed
	}
	for _, p := range cfg.MultiPoint.Enabled {
		needed.Insert(p.Name)
	}
	for _, pt := range setsOf(cfg) {
		for _, p := range pt.set.Enabled {
			needed.Insert(p.Name)
		}
	}
	return needed
}

// Without returns a copy of a configuration that enables none of the named plugins.
func Without(cfg *schedconfig.Plugins, names sets.Set[string]) *schedconfig.Plugins {
	if cfg == nil {
		return nil
	}
	cfg = cfg.DeepCopy()
	remove := func(set *schedconfig.PluginSet) {
		set.Enabled = slices.DeleteFunc(set.Enabled, func(p schedconfig.Plugin) bool { return names.Has(p.Name) })
	}
	remove(&cfg.MultiPoint)
	for _, pt := range setsOf(cfg) {
		remove(pt.set)
	}
	return cfg
}

// Configured returns the plugins by extension point as a configuration without MultiPoint:
// kube-scheduler calls it the captured profile. Plugins of Score and PlacementScore carry their
// weights.
func (p *Plugins) Configured() *schedconfig.Plugins {
	out := &schedconfig.Plugins{}
	for _, pt := range pointsOf(out, p) {
		for _, pl := range pt.plugins.all() {
			entry := schedconfig.Plugin{Name: pl.Name()}
			if pt.weights != nil {
				entry.Weight = int32((*pt.weights)[pl.Name()])
			}
			pt.set.Enabled = append(pt.set.Enabled, entry)
		}
	}
	return out
}
