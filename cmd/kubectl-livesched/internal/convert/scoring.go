// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// scoring collects the strategy plugins of a profile: NodeResourcesLeastAllocated,
// NodeResourcesMostAllocated and RequestedToCapacityRatio. They are scoring strategies of
// NodeResourcesFit now, which can have only one strategy. Further ones need livesched's own plugins
// with these names.
type scoring struct {
	// ordinary are the names that are ordinary plugins: livesched has them, and the version did
	// not.
	ordinary sets.Set[string]
	// active are the enabled strategy plugins with their weights, in the order of the input.
	active []scorer
	args   map[string]*fields
	// touched reports whether the profile mentions any of these plugins.
	touched bool
}

type scorer struct {
	plugin string
	weight int32
	path   *field.Path // nil if enabled by default
}

func newScoring(v version, registered sets.Set[string]) *scoring {
	s := &scoring{args: map[string]*fields{}, ordinary: registered}
	if v.scoringPlugins {
		s.ordinary = nil
		s.active = []scorer{{plugin: nodeResourcesLeastAllocated, weight: 1}}
	}
	return s
}

// has reports whether a plugin is a strategy plugin.
func (s *scoring) has(plugin string) bool { return strategies[plugin] != "" && !s.ordinary.Has(plugin) }

// enable enables a strategy plugin, and reports whether the plugin is one. These plugins only
// score.
func (s *scoring) enable(c *converter, point string, path *field.Path, plugin v1alpha1.Plugin) bool {
	if !s.has(plugin.Name) {
		return false
	}
	if point != "score" && point != "multiPoint" {
		c.remark(Loss, path, "plugin %q only scores: left out at %s", plugin.Name, point)
		return true
	}
	s.touched = true
	s.active = slices.DeleteFunc(s.active, func(a scorer) bool { return a.plugin == plugin.Name })
	s.active = append(s.active, scorer{plugin: plugin.Name, weight: max(ptr.Deref(plugin.Weight, 1), 1), path: path})
	return true
}

// disable disables a strategy plugin, and reports whether the plugin is one. Disabling all plugins
// also disables the default strategy plugin.
func (s *scoring) disable(point, name string) bool {
	if point != "score" {
		return s.has(name)
	}
	if name == allPlugins {
		s.touched = s.touched || len(s.active) > 0
		s.active = slices.DeleteFunc(s.active, func(a scorer) bool { return a.path == nil })
		return false
	}
	if !s.has(name) {
		return false
	}
	s.touched = true
	// A plugin that is both enabled and disabled is enabled: disabling only removes defaults.
	s.active = slices.DeleteFunc(s.active, func(a scorer) bool { return a.plugin == name && a.path == nil })
	return true
}

// configure keeps the arguments of a strategy plugin, and reports whether the plugin is one.
func (s *scoring) configure(name string, args *fields) bool {
	if !s.has(name) {
		return false
	}
	s.touched = true
	s.args[name] = args
	return true
}

// apply sets the scoring strategy of NodeResourcesFit.
func (s *scoring) apply(p *pluginSets, f *fields) {
	if !s.touched {
		return // the default has not changed
	}
	score := p.sets["score"]
	if len(s.active) == 0 {
		s.dropArgs(p.c)
		if !hasPlugin(score.Disabled, allPlugins) && !hasPlugin(score.Disabled, names.NodeResourcesFit) {
			score.Disabled = append(score.Disabled, v1alpha1.Plugin{Name: names.NodeResourcesFit})
		}
		return
	}
	chosen := s.choose()
	if !hasPlugin(score.Enabled, names.NodeResourcesFit) {
		score.Enabled = append(score.Enabled, v1alpha1.Plugin{Name: names.NodeResourcesFit, Weight: &chosen.weight})
	}
	for _, other := range s.active {
		if other.plugin != chosen.plugin {
			s.applyBeside(p, other, chosen, f)
		}
	}
	s.dropArgs(p.c)

	args := p.argsOf(names.NodeResourcesFit)
	if args == nil {
		args = map[string]any{}
		p.args = append(p.args, pluginArgs{plugin: names.NodeResourcesFit, values: args})
	}
	if args["scoringStrategy"] != nil {
		p.c.remark(Loss, chosen.place(f), "the args of NodeResourcesFit have a scoringStrategy: %s is left out",
			chosen.plugin)
		return
	}
	args["scoringStrategy"] = s.strategy(chosen.plugin)
	p.c.remark(Note, chosen.place(f), "%s is now the scoring strategy %s of NodeResourcesFit", chosen.plugin,
		strategies[chosen.plugin])
}

// applyBeside converts a strategy plugin in addition to the chosen one.
func (s *scoring) applyBeside(p *pluginSets, other, chosen scorer, f *fields) {
	if !p.c.options.Registered.Has(other.plugin) {
		p.c.remark(Loss, other.place(f),
			"%s (weight %d) is left out: NodeResourcesFit can have only one scoring strategy, which is %s (weight %d)",
			other.plugin, other.weight, strategies[chosen.plugin], chosen.weight)
		return
	}
	score := p.sets["score"]
	score.Enabled = append(score.Enabled, v1alpha1.Plugin{Name: other.plugin, Weight: &other.weight})
	p.c.remark(Note, other.place(f),
		"NodeResourcesFit can have only one scoring strategy: %s stays a plugin of its own, which livesched has",
		other.plugin)
	args := s.args[other.plugin]
	if args == nil {
		return
	}
	values := maps.Clone(args.values)
	delete(values, "apiVersion")
	delete(values, "kind")
	p.args = append(p.args, pluginArgs{plugin: other.plugin, values: values})
}

// choose returns the plugin with the greatest weight; in a tie, one that the profile enables
// precedes the default.
func (s *scoring) choose() scorer {
	chosen := s.active[0]
	for _, other := range s.active[1:] {
		if other.weight > chosen.weight || other.weight == chosen.weight && chosen.path == nil {
			chosen = other
		}
	}
	return chosen
}

// place returns the path at which a plugin was enabled, or would have been.
func (s scorer) place(f *fields) *field.Path {
	if s.path != nil {
		return s.path
	}
	return child(f.path, "plugins").Child("score")
}

// strategy converts the args of a strategy plugin to a scoring strategy.
func (s *scoring) strategy(plugin string) map[string]any {
	strategy := map[string]any{"type": strategies[plugin]}
	args := s.args[plugin]
	if args == nil {
		return strategy
	}
	args.take("apiVersion")
	args.take("kind")
	if resources, _ := args.take("resources"); resources != nil {
		strategy["resources"] = resources
	}
	if plugin == requestedToCapacityRatio {
		if shape, _ := args.take("shape"); shape != nil {
			strategy["requestedToCapacityRatio"] = map[string]any{"shape": shape}
		}
	}
	args.unknown()
	return strategy
}

// dropArgs adds a remark on the arguments of each strategy plugin that does not run.
func (s *scoring) dropArgs(c *converter) {
	for _, name := range sets.List(sets.KeySet(s.args)) {
		if !slices.ContainsFunc(s.active, func(a scorer) bool { return a.plugin == name }) {
			c.remark(Note, s.args[name].path, "%s does not score: its args are left out", name)
		}
	}
}
