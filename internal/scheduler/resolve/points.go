// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// point is an extension point, or multiPoint, as a field of a plugin configuration.
type point struct {
	// name is the name of the field in the API.
	name string
	// weighted means that the weights of plugins enabled here count.
	weighted bool
	api      func(*v1alpha1.Plugins) *v1alpha1.PluginSet
	internal func(*schedconfig.Plugins) *schedconfig.PluginSet
}

var points = []point{
	{"preEnqueue", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreEnqueue },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PreEnqueue }},
	{"queueSort", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.QueueSort },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.QueueSort }},
	{"preFilter", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreFilter },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PreFilter }},
	{"filter", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.Filter },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.Filter }},
	{"postFilter", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PostFilter },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PostFilter }},
	{"preScore", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreScore },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PreScore }},
	{"score", true, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.Score },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.Score }},
	{"reserve", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.Reserve },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.Reserve }},
	{"permit", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.Permit },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.Permit }},
	{"preBind", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PreBind },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PreBind }},
	{"bind", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.Bind },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.Bind }},
	{"postBind", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PostBind },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PostBind }},
	{"multiPoint", true, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.MultiPoint },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.MultiPoint }},
	{"placementGenerate", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PlacementGenerate },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PlacementGenerate }},
	{"placementScore", true, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PlacementScore },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PlacementScore }},
	{"podGroupPostFilter", false, func(p *v1alpha1.Plugins) *v1alpha1.PluginSet { return &p.PodGroupPostFilter },
		func(p *schedconfig.Plugins) *schedconfig.PluginSet { return &p.PodGroupPostFilter }},
}

// internalPlugins translates the plugins of a profile. It shares nothing with its input.
func internalPlugins(plugins *v1alpha1.Plugins) *schedconfig.Plugins {
	if plugins == nil {
		return nil
	}
	out := &schedconfig.Plugins{}
	for _, point := range points {
		from, to := point.api(plugins), point.internal(out)
		to.Enabled, to.Disabled = internalList(from.Enabled), internalList(from.Disabled)
	}
	return out
}

func internalList(plugins []v1alpha1.Plugin) []schedconfig.Plugin {
	var out []schedconfig.Plugin
	for _, plugin := range plugins {
		out = append(out, schedconfig.Plugin{Name: plugin.Name, Weight: ptr.Deref(plugin.Weight, 0)})
	}
	return out
}

// ActivePlugins returns the running plugin set in the form of a profile's status. plugins must be
// expanded, with nothing left in multiPoint.
func ActivePlugins(plugins *schedconfig.Plugins) v1alpha1.ActivePlugins {
	return v1alpha1.ActivePlugins{
		PreEnqueue:         pluginNames(plugins.PreEnqueue.Enabled),
		QueueSort:          pluginNames(plugins.QueueSort.Enabled),
		PreFilter:          pluginNames(plugins.PreFilter.Enabled),
		Filter:             pluginNames(plugins.Filter.Enabled),
		PostFilter:         pluginNames(plugins.PostFilter.Enabled),
		PreScore:           pluginNames(plugins.PreScore.Enabled),
		Score:              weightedPlugins(plugins.Score.Enabled),
		Reserve:            pluginNames(plugins.Reserve.Enabled),
		Permit:             pluginNames(plugins.Permit.Enabled),
		PreBind:            pluginNames(plugins.PreBind.Enabled),
		Bind:               pluginNames(plugins.Bind.Enabled),
		PostBind:           pluginNames(plugins.PostBind.Enabled),
		PlacementGenerate:  pluginNames(plugins.PlacementGenerate.Enabled),
		PlacementScore:     weightedPlugins(plugins.PlacementScore.Enabled),
		PodGroupPostFilter: pluginNames(plugins.PodGroupPostFilter.Enabled),
	}
}

func pluginNames(list []schedconfig.Plugin) []string {
	var names []string
	for _, plugin := range list {
		names = append(names, plugin.Name)
	}
	return names
}

func weightedPlugins(list []schedconfig.Plugin) []v1alpha1.WeightedPlugin {
	var plugins []v1alpha1.WeightedPlugin
	for _, plugin := range list {
		plugins = append(plugins, v1alpha1.WeightedPlugin{Name: plugin.Name, Weight: int64(plugin.Weight)})
	}
	return plugins
}
