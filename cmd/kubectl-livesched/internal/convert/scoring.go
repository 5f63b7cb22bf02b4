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

// scoring collects the plugins NodeResourcesLeastAllocated, NodeResourcesMostAllocated and
// RequestedToCapacityRatio of a profile. They have become scoring strategies of NodeResourcesFit,
// which has one. Where there are several, the others need livesched's own plugins of these names.
type scoring struct {
	// ordinary are those names that are plugins like others: livesched has them, and the version
	// had not.
	ordinary sets.Set[string]
	// active are the plugins that score, with their weights, in the order in which they were named.
	active []scorer
	args   map[string]*fields
	// touched: the profile says anything about these plugins.
	touched bool
}

type scorer struct {
	plugin string
	weight int32
	path   *field.Path // nil: by default
}

func newScoring(v version, registered sets.Set[string]) *scoring {
	s := &scoring{args: map[string]*fields{}, ordinary: registered}
	if v.scoringPlugins {
		s.ordinary = nil
		s.active = []scorer{{plugin: nodeResourcesLeastAllocated, weight: 1}}
	}
	return s
}

// has says whether a plugin is one of these.
func (s *scoring) has(plugin string) bool { return strategies[plugin] != "" && !s.ordinary.Has(plugin) }

// enable says whether the plugin is one of these. They score, and do nothing at other extension
// points.
func (s *scoring) enable(c *converter, point string, path *field.Path, plugin v1alpha1.Plugin) bool {
	if !s.has(plugin.Name) {
		return false
	}
	if point != "score" && point != "multiPoint" {
		c.remark(Loss, path, "plugin %q only scores: left out at %s", plugin.Name, point)
		return true
	}
	s.touched = true
	s.remove(plugin.Name)
	s.active = append(s.active, scorer{plugin: plugin.Name, weight: max(ptr.Deref(plugin.Weight, 1), 1), path: path})
	return true
}

// disable says whether the plugin is one of these. To disable all plugins disables the default one
// of these, too.
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
	// A plugin that is both enabled and disabled is enabled: what is disabled is taken out of the
	// defaults.
	s.active = slices.DeleteFunc(s.active, func(a scorer) bool { return a.plugin == name && a.path == nil })
	return true
}

// configure says whether the arguments are those of one of these.
func (s *scoring) configure(name string, args *fields) bool {
	if !s.has(name) {
		return false
	}
	s.touched = true
	s.args[name] = args
	return true
}

func (s *scoring) remove(name string) {
	s.active = slices.DeleteFunc(s.active, func(a scorer) bool { return a.plugin == name })
}

// apply writes down the scoring strategy.
func (s *scoring) apply(p *pluginSets, f *fields) {
	if !s.touched {
		return // the default is the same today
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
		p.c.remark(Loss, chosen.place(f), "NodeResourcesFit has a scoringStrategy in its args: %s is left out", chosen.plugin)
		return
	}
	args["scoringStrategy"] = s.strategy(chosen.plugin)
	p.c.remark(Note, chosen.place(f), "%s is the scoring strategy %s of NodeResourcesFit now", chosen.plugin, strategies[chosen.plugin])
}

// applyBeside writes down a plugin that scores beside the one that is the scoring strategy.
func (s *scoring) applyBeside(p *pluginSets, other, chosen scorer, f *fields) {
	if !p.c.options.Registered.Has(other.plugin) {
		p.c.remark(Loss, other.place(f), "%s (weight %d) is left out: NodeResourcesFit has one scoring strategy, and that is %s (weight %d)",
			other.plugin, other.weight, strategies[chosen.plugin], chosen.weight)
		return
	}
	score := p.sets["score"]
	score.Enabled = append(score.Enabled, v1alpha1.Plugin{Name: other.plugin, Weight: &other.weight})
	p.c.remark(Note, other.place(f), "NodeResourcesFit has one scoring strategy: %s stays a plugin of its own, which livesched has", other.plugin)
	args := s.args[other.plugin]
	if args == nil {
		return
	}
	values := maps.Clone(args.values)
	delete(values, "apiVersion")
	delete(values, "kind")
	p.args = append(p.args, pluginArgs{plugin: other.plugin, values: values})
}

// choose returns the plugin with the greatest weight, in case of a tie one that was asked for.
func (s *scoring) choose() scorer {
	chosen := s.active[0]
	for _, other := range s.active[1:] {
		if other.weight > chosen.weight || other.weight == chosen.weight && chosen.path == nil {
			chosen = other
		}
	}
	return chosen
}

// place is where a plugin was enabled, or where it would have been.
func (s scorer) place(f *fields) *field.Path {
	if s.path != nil {
		return s.path
	}
	return child(f.path, "plugins").Child("score")
}

// strategy makes the args of a plugin into a scoring strategy.
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

// dropArgs remarks on the arguments of plugins that do not run.
func (s *scoring) dropArgs(c *converter) {
	for _, name := range sets.List(sets.KeySet(s.args)) {
		if !slices.ContainsFunc(s.active, func(a scorer) bool { return a.plugin == name }) {
			c.remark(Note, s.args[name].path, "%s does not score: its args are left out", name)
		}
	}
}
