// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
)

// allPlugins means all plugins in a list of disabled ones.
const allPlugins = "*"

// points are the extension points and multiPoint.
var points = []string{
	"multiPoint", "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve",
	"permit", "preBind",
	"bind", "postBind", "placementGenerate", "placementScore",
	"podGroupPostFilter",
}

// needed has the extension points at which a profile must have a plugin, with kube-scheduler's
// plugin for each.
var needed = map[string]string{"queueSort": names.PrioritySort, "bind": names.DefaultBinder}

// coscheduling is scheduler-plugins' plugin for groups of pods.
const coscheduling = "Coscheduling"

// pluginSets holds the plugins of a profile during its conversion.
type pluginSets struct {
	c    *converter
	sets map[string]*v1alpha1.PluginSet
	args []pluginArgs
	// missing are the needed extension points at which all enabled plugins were left out.
	missing []missingPlugin
	// scoring holds the plugins that are scoring strategies now.
	scoring *scoring
}

// missingPlugin is an extension point without a plugin. Its replacement is a loss unless livesched
// itself does the work of the plugins that were left out.
type missingPlugin struct {
	fields   *fields
	severity Severity
}

// plugins converts the plugins of a profile and their arguments.
func (c *converter) plugins(f *fields, v version) *pluginSets {
	p := &pluginSets{c: c, sets: map[string]*v1alpha1.PluginSet{}, scoring: newScoring(v, c.options.Registered)}
	for _, point := range points {
		p.sets[point] = &v1alpha1.PluginSet{}
	}
	if plugins := f.object("plugins"); plugins != nil {
		for _, point := range points {
			if set := plugins.object(point); set != nil {
				p.point(point, set)
			}
		}
		plugins.unknown()
	}
	p.fill()
	p.readArgs(f, v)
	p.keepWeights(f, v)
	p.scoring.apply(p, f)
	return p
}

// point converts the plugins of an extension point.
func (p *pluginSets) point(point string, f *fields) {
	set := p.sets[point]
	enabled, _ := f.objects("enabled")
	dropped, severity := 0, Note
	for _, plugin := range enabled {
		entry := v1alpha1.Plugin{Name: plugin.text("name"), Weight: plugin.integer32("weight")}
		plugin.unknown()
		switch {
		case p.scoring.enable(p.c, point, plugin.path, entry):
		case !p.known(plugin.at("name"), entry.Name):
			dropped++
			if entry.Name != coscheduling {
				severity = Loss
			}
		case hasPlugin(set.Enabled, entry.Name):
			p.c.remark(Loss, plugin.path, "plugin %q is enabled twice: the second entry is left out", entry.Name)
		default:
			set.Enabled = append(set.Enabled, entry)
		}
	}
	p.disable(point, f)
	f.unknown()
	if needed[point] != "" && dropped > 0 && len(set.Enabled) == 0 {
		p.missing = append(p.missing, missingPlugin{f, severity})
	}
}

// fill adds kube-scheduler's plugin at the needed extension points whose plugins were left out.
func (p *pluginSets) fill() {
	everywhere := p.sets["multiPoint"].Disabled
	for _, m := range p.missing {
		f := m.fields
		point := f.path.String()[strings.LastIndex(f.path.String(), ".")+1:]
		plugin, set := needed[point], p.sets[point]
		if len(set.Disabled) == 0 && !hasPlugin(everywhere, plugin) && !hasPlugin(everywhere, allPlugins) {
			continue // it is enabled by default
		}
		set.Enabled, set.Disabled = []v1alpha1.Plugin{{Name: plugin}}, []v1alpha1.Plugin{{Name: allPlugins}}
		p.c.remark(m.severity, f.path, "no plugin is left here: %s replaces those that were left out", plugin)
	}
}

func (p *pluginSets) disable(point string, f *fields) {
	set := p.sets[point]
	disabled, _ := f.objects("disabled")
	for _, plugin := range disabled {
		name := plugin.text("name")
		plugin.take("weight") // meaningless
		plugin.unknown()
		switch {
		case hasPlugin(set.Disabled, name):
		case p.scoring.disable(point, name):
		case name == allPlugins || p.c.options.Registered.Has(name):
			set.Disabled = append(set.Disabled, v1alpha1.Plugin{Name: name})
		default:
			p.c.remark(Note, plugin.at("name"), "livesched does not have plugin %q: nothing to disable", name)
		}
	}
}

// known reports whether livesched has a plugin, and adds a remark if it does not.
func (p *pluginSets) known(path *field.Path, name string) bool {
	c := p.c
	advice := gone[name]
	switch {
	case c.options.Registered.Has(name):
		return true
	case name == coscheduling && c.advised.Has(name):
		return false
	case name == coscheduling:
		c.remark(Note, path, "livesched schedules PodGroups by itself, without plugin %q: left out, with its arguments",
			name)
	case name == allPlugins:
		c.remark(Loss, path, `"*" stands for all plugins and cannot be enabled: left out`)
	case c.advised.Has(name):
		c.remark(Loss, path, "livesched does not have plugin %q: left out", name)
	case advice != "":
		c.remark(Loss, path, "livesched does not have plugin %q, nor does kube-scheduler any longer: left out; %s",
			name, advice)
	default:
		c.remark(Loss, path, "livesched does not have plugin %q: left out; if your livesched is built with this "+
			"out-of-tree plugin, name it in --plugins", name)
	}
	c.advised.Insert(name)
	return false
}

// keepWeights writes out the weights of default plugins that have changed since the version.
func (p *pluginSets) keepWeights(f *fields, v version) {
	score := p.sets["score"]
	if hasPlugin(score.Disabled, allPlugins) {
		return
	}
	for _, old := range v.weights {
		if hasPlugin(score.Disabled, old.plugin) || hasPlugin(score.Enabled, old.plugin) ||
			!p.c.options.Registered.Has(old.plugin) {
			continue
		}
		score.Enabled = append(score.Enabled, v1alpha1.Plugin{Name: old.plugin, Weight: &old.weight})
		p.c.remark(Note, child(f.path, "plugins").Child("score"), "%s had the default weight %d in %s: written out",
			old.plugin, old.weight, v.name)
	}
}

func hasPlugin(list []v1alpha1.Plugin, name string) bool {
	return slices.ContainsFunc(list, func(plugin v1alpha1.Plugin) bool { return plugin.Name == name })
}

// build returns the plugins, nil if there are none to enable or disable, and the arguments.
func (p *pluginSets) build() (*v1alpha1.Plugins, []v1alpha1.PluginConfig) {
	sets := map[string]*v1alpha1.PluginSet{}
	for point, set := range p.sets {
		if len(set.Enabled)+len(set.Disabled) > 0 {
			sets[point] = set
		}
	}
	var configs []v1alpha1.PluginConfig
	for _, args := range p.args {
		config := v1alpha1.PluginConfig{Name: args.plugin}
		config.Args.Raw = mustMarshal(args.values)
		configs = append(configs, config)
	}
	if len(sets) == 0 {
		return nil, configs
	}
	plugins := &v1alpha1.Plugins{}
	if err := json.Unmarshal(mustMarshal(sets), plugins); err != nil {
		panic(err) // impossible: it was encoded from the same types
	}
	return plugins, configs
}

// mustMarshal encodes a value that was decoded from JSON, which cannot fail.
func mustMarshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
