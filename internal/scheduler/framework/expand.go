// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// disableAll, among the disabled plugins of an extension point, disables all plugins of MultiPoint
// there.
const disableAll = "*"

// Expand determines which plugin runs at which extension point and with which weight, by
// kube-scheduler's rules (expandMultiPointPlugins in pkg/scheduler/framework/runtime/framework.go):
//
//   - A plugin of MultiPoint runs at every extension point that it implements, except where the
//     point disables it, or disables "*".
//   - A plugin that MultiPoint and a point both name runs there once, before the others, at the
//     place and with the weight that the point gives it.
//   - MultiPoint's other plugins come next, the point's other plugins last.
//   - A weight that is missing or 0 counts as 1.
//
// instances must hold every plugin of Needed, by the name it is configured under. The error names
// all plugins that are unknown, listed twice at one extension point or enabled where they cannot
// run, and the extension points that have too few plugins (QueueSort and Bind need one) or too many
// (QueueSort and PlacementGenerate).
func Expand(cfg *schedconfig.Plugins, instances map[string]fwk.Plugin) (*Plugins, error) {
	if cfg == nil {
		cfg = &schedconfig.Plugins{}
	}
	if err := checkKnown(cfg, instances); err != nil {
		return nil, err
	}
	out := &Plugins{}
	var errs []error
	for _, pt := range pointsOf(cfg, out) {
		if err := pt.expandInto(cfg, instances); err != nil {
			errs = append(errs, fmt.Errorf("extension point %s: %w", pt.name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, name := range sets.List(Needed(cfg)) {
		out.All = append(out.All, instances[name])
	}
	return out, nil
}

// checkKnown reports names without an instance, each at its place in the configuration.
func checkKnown(cfg *schedconfig.Plugins, instances map[string]fwk.Plugin) error {
	var errs []error
	check := func(place string, set *schedconfig.PluginSet) {
		for _, p := range set.Enabled {
			if instances[p.Name] == nil {
				errs = append(errs, fmt.Errorf("%s: plugin %q is not known", place, p.Name))
			}
		}
	}
	check("multiPoint", &cfg.MultiPoint)
	for _, pt := range setsOf(cfg) {
		check("extension point "+pt.name, pt.set)
	}
	return errors.Join(errs...)
}

// expandInto sets the fields of this point.
func (pt point) expandInto(cfg *schedconfig.Plugins, instances map[string]fwk.Plugin) error {
	names, err := pt.expand(cfg, instances)
	if err != nil {
		return err
	}
	if err := pt.checkCount(names); err != nil {
		return err
	}
	for _, name := range names {
		pt.plugins.add(instances[name])
	}
	if pt.weights != nil {
		*pt.weights, err = pt.weigh(cfg, instances)
	}
	return err
}

// expand returns the names of the plugins that run at this point, in order.
func (pt point) expand(cfg *schedconfig.Plugins, instances map[string]fwk.Plugin) ([]string, error) {
	own, err := pt.ownPlugins(instances)
	if err != nil {
		return nil, err
	}
	disabled := sets.New[string]()
	for _, p := range pt.set.Disabled {
		disabled.Insert(p.Name)
	}
	if disabled.Has(disableAll) {
		return own, nil
	}

	configured, overriding := sets.New(own...), sets.New[string]()
	var inherited []string
	for _, p := range cfg.MultiPoint.Enabled {
		switch {
		case !pt.plugins.accepts(instances[p.Name]) || disabled.Has(p.Name):
		case configured.Has(p.Name):
			overriding.Insert(p.Name)
		case slices.Contains(inherited, p.Name):
			return nil, fmt.Errorf("multiPoint lists plugin %q twice", p.Name)
		default:
			inherited = append(inherited, p.Name)
		}
	}

	var first, last []string
	for _, name := range own {
		if overriding.Has(name) {
			first = append(first, name)
		} else {
			last = append(last, name)
		}
	}
	return slices.Concat(first, inherited, last), nil
}

// ownPlugins returns the names that the extension point itself enables.
func (pt point) ownPlugins(instances map[string]fwk.Plugin) ([]string, error) {
	var names []string
	for _, p := range pt.set.Enabled {
		if !pt.plugins.accepts(instances[p.Name]) {
			return nil, fmt.Errorf("plugin %q does not implement it", p.Name)
		}
		if slices.Contains(names, p.Name) {
			return nil, fmt.Errorf("plugin %q is listed twice", p.Name)
		}
		names = append(names, p.Name)
	}
	return names, nil
}

func (pt point) checkCount(names []string) error {
	switch {
	case len(names) < pt.min:
		return errors.New("no plugin is enabled, at least one is needed")
	case pt.max > 0 && len(names) > pt.max:
		return fmt.Errorf("only one plugin can be enabled, got %s", strings.Join(names, ", "))
	}
	return nil
}

// weigh returns the weights of the plugins that run at this point, by their own names. The
// configuration may use another name for a plugin than the plugin itself; a weight is looked up by
// the plugin's own name and must exist.
func (pt point) weigh(cfg *schedconfig.Plugins, instances map[string]fwk.Plugin) (map[string]int64, error) {
	configured := map[string]int64{}
	var total int64
	for _, p := range slices.Concat(pt.set.Enabled, cfg.MultiPoint.Enabled) {
		if _, ok := configured[p.Name]; ok || !pt.plugins.accepts(instances[p.Name]) {
			continue
		}
		weight := int64(p.Weight)
		if weight == 0 {
			weight = 1
		}
		// This is exactly kube-scheduler's check. Weights have 32 bits, so in practice it finds
		// sums below zero.
		if weight*fwk.MaxScore > fwk.MaxTotalScore-total {
			return nil, fmt.Errorf("the weights up to plugin %q add up to less than 0 or to more than a total can hold",
				p.Name)
		}
		total += weight * fwk.MaxScore
		configured[p.Name] = weight
	}
	weights := map[string]int64{}
	for _, pl := range pt.plugins.all() {
		weight, ok := configured[pl.Name()]
		if !ok {
			return nil, fmt.Errorf("plugin %q has no weight, as it is configured under another name", pl.Name())
		}
		weights[pl.Name()] = weight
	}
	return weights, nil
}
