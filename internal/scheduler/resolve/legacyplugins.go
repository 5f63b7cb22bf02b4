// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/livesched/livesched/api/v1alpha1"
)

// plugins returns the set of plugins of the policy. Unlike the set of a provider, it names the
// extension points of each plugin, since a predicate and a priority are parts of one plugin. A
// policy with neither predicates nor priorities is DefaultProvider.
func (l *legacyPolicy) plugins(policy *v1alpha1.LegacyPolicy) *schedconfig.Plugins {
	defaults := l.r.defaults.Profiles[0].Plugins
	if policy.Predicates == nil && policy.Priorities == nil {
		return defaults
	}
	out := &schedconfig.Plugins{}
	for _, plugin := range l.decidingPlugins(policy, defaults) {
		deciding, _ := legacyPoints(plugin)
		enable(out, deciding, schedconfig.Plugin{Name: plugin})
	}
	for _, plugin := range l.scoringPlugins(policy, defaults) {
		_, scoring := legacyPoints(plugin.Name)
		enable(out, scoring, plugin)
	}
	for _, plugin := range defaults.MultiPoint.Enabled {
		switch {
		case inMultiPoint.Has(plugin.Name):
			out.MultiPoint.Enabled = append(out.MultiPoint.Enabled, plugin)
		case !servesPredicates.Has(plugin.Name):
			// It never belonged to a predicate. Without it, today's pods would be placed wrongly.
			deciding, _ := legacyPoints(plugin.Name)
			enable(out, deciding, schedconfig.Plugin{Name: plugin.Name})
		}
	}
	return out
}

// decidingPlugins returns the plugins of the predicates, including the mandatory ones, in the order
// of the table; or DefaultProvider's, in its order, if the policy sets no predicates.
func (l *legacyPolicy) decidingPlugins(policy *v1alpha1.LegacyPolicy, defaults *schedconfig.Plugins) []string {
	var plugins []string
	if policy.Predicates == nil {
		for _, plugin := range defaults.MultiPoint.Enabled {
			if servesPredicates.Has(plugin.Name) {
				plugins = append(plugins, plugin.Name)
			}
		}
		return plugins
	}
	for i := range legacyPredicates {
		entry := &legacyPredicates[i]
		mandatory := slices.Contains(mandatoryPredicates, entry.Name)
		if !mandatory && !l.predicates.Has(entry) {
			continue
		}
		for _, plugin := range entry.Plugins {
			if !slices.Contains(plugins, plugin) {
				plugins = append(plugins, plugin)
			}
		}
	}
	return plugins
}

// scoringPlugins returns the plugins of the priorities, in the order of the table; or
// DefaultProvider's, with its weights, if the policy sets no priorities.
func (l *legacyPolicy) scoringPlugins(policy *v1alpha1.LegacyPolicy,
	defaults *schedconfig.Plugins) []schedconfig.Plugin {
	var plugins []schedconfig.Plugin
	if policy.Priorities == nil {
		for _, plugin := range defaults.MultiPoint.Enabled {
			if _, scoring := legacyPoints(plugin.Name); len(scoring) > 0 {
				plugins = append(plugins, plugin)
			}
		}
		return plugins
	}
	placed := sets.New[string]()
	for i := range legacyPriorities {
		for _, plugin := range legacyPriorities[i].Plugins {
			if weight, ok := l.weights[plugin]; ok && !placed.Has(plugin) {
				placed.Insert(plugin)
				plugins = append(plugins, schedconfig.Plugin{Name: plugin, Weight: int32(weight)})
			}
		}
	}
	return plugins
}

// enable appends a plugin to extension points, with its weight where that counts.
func enable(plugins *schedconfig.Plugins, at []string, plugin schedconfig.Plugin) {
	for _, point := range points {
		if !slices.Contains(at, point.name) {
			continue
		}
		entry := schedconfig.Plugin{Name: plugin.Name}
		if point.weighted {
			entry.Weight = plugin.Weight
		}
		set := point.internal(plugins)
		set.Enabled = append(set.Enabled, entry)
	}
}

// servesPredicates holds the plugins of all predicates.
var servesPredicates = func() sets.Set[string] {
	plugins := sets.New[string]()
	for _, entry := range legacyPredicates {
		plugins.Insert(entry.Plugins...)
	}
	return plugins
}()
