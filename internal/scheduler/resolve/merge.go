// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"k8s.io/apimachinery/pkg/util/sets"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// allPlugins means all plugins in a list of disabled ones.
const allPlugins = "*"

// merge merges the plugins of a profile over those it builds on, separately at each extension
// point, by the rules of kube-scheduler (pkg/scheduler/apis/config/v1/default_plugins.go). custom
// may be nil.
func merge(base, custom *schedconfig.Plugins) *schedconfig.Plugins {
	if custom == nil {
		return base.DeepCopy()
	}
	merged := &schedconfig.Plugins{}
	for _, point := range points {
		*point.internal(merged) = mergeSet(*point.internal(base), *point.internal(custom))
	}
	return merged
}

// mergeSet removes disabled plugins from the base, gives plugins that are in both their custom
// weight at their place in the base, and appends the other custom ones. The result keeps the
// disabled plugins, since multiPoint must not add them at this extension point.
func mergeSet(base, custom schedconfig.PluginSet) schedconfig.PluginSet {
	var merged schedconfig.PluginSet
	disabled := sets.New[string]()
	for _, list := range [][]schedconfig.Plugin{custom.Disabled, base.Disabled} {
		for _, plugin := range list {
			disabled.Insert(plugin.Name)
			merged.Disabled = append(merged.Disabled, schedconfig.Plugin{Name: plugin.Name})
		}
	}

	overrides := map[string]schedconfig.Plugin{}
	for _, plugin := range custom.Enabled {
		overrides[plugin.Name] = plugin
	}
	placed := sets.New[string]()
	if !disabled.Has(allPlugins) {
		for _, plugin := range base.Enabled {
			if disabled.Has(plugin.Name) {
				continue
			}
			if override, ok := overrides[plugin.Name]; ok {
				plugin = override
				placed.Insert(plugin.Name)
			}
			merged.Enabled = append(merged.Enabled, plugin)
		}
	}
	for _, plugin := range custom.Enabled {
		if !placed.Has(plugin.Name) {
			merged.Enabled = append(merged.Enabled, plugin)
		}
	}
	return merged
}

// enabledNames returns the names of the plugins that are enabled anywhere, multiPoint included.
func enabledNames(plugins *schedconfig.Plugins) sets.Set[string] {
	names := sets.New[string]()
	for _, point := range points {
		for _, plugin := range point.internal(plugins).Enabled {
			names.Insert(plugin.Name)
		}
	}
	return names
}
