// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"strings"

	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// pluginArgs are the arguments of one plugin.
type pluginArgs struct {
	plugin string
	values map[string]any
}

// readArgs converts pluginConfig. The arguments that v1 has, too, have the same fields in all
// versions.
func (p *pluginSets) readArgs(f *fields, v version) {
	configs, _ := f.objects("pluginConfig")
	for _, config := range configs {
		name := config.text("name")
		args := config.object("args")
		config.unknown()
		if args == nil {
			args = p.c.fields(config.at("args"), map[string]any{}, false)
		}
		switch {
		case p.scoring.configure(name, args):
		case p.argsOf(name) != nil:
			p.c.remark(Loss, config.path, "plugin %q is configured twice: the second entry is left out", name)
		case p.known(config.at("name"), name):
			p.args = append(p.args, pluginArgs{plugin: name, values: p.convertArgs(name, args, v)})
		}
	}
}

// convertArgs removes the version of arguments, which are v1 now.
func (p *pluginSets) convertArgs(plugin string, args *fields, v version) map[string]any {
	version, _ := args.values["apiVersion"].(string)
	kind, _ := args.values["kind"].(string)
	values := map[string]any{}
	for name, value := range args.values {
		if name == "apiVersion" && strings.HasPrefix(version, group) || name == "kind" && kind == plugin+"Args" {
			continue
		}
		values[name] = value
	}
	constraints, _ := values["defaultConstraints"].([]any)
	if v.listConstraints && plugin == names.PodTopologySpread && len(constraints) > 0 &&
		values["defaultingType"] == nil {
		values["defaultingType"] = "List"
		p.c.remark(Note, args.at("defaultConstraints"), "defaultingType: List was the default in %s: written out",
			v.name)
	}
	return values
}

// argsOf returns the arguments of a plugin, nil if there are none.
func (p *pluginSets) argsOf(plugin string) map[string]any {
	for _, args := range p.args {
		if args.plugin == plugin {
			return args.values
		}
	}
	return nil
}
