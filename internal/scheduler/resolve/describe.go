// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// Description is a resolved profile in a form that users can read and compare.
type Description struct {
	SchedulerName             string `json:"schedulerName"`
	Policy                    string `json:"policy"`
	PercentageOfNodesToScore  int32  `json:"percentageOfNodesToScore"`
	Parallelism               int32  `json:"parallelism"`
	PodInitialBackoff         string `json:"podInitialBackoff"`
	PodMaxBackoff             string `json:"podMaxBackoff"`
	PodMaxInUnschedulablePods string `json:"podMaxInUnschedulablePods"`
	PodGroupReserveAfter      string `json:"podGroupReserveAfter,omitempty"`
	// Plugins lists the plugins by extension point, in the order in which they run, with their
	// weights where those count. multiPoint has the plugins whose extension points are not known
	// from their names.
	Plugins map[string][]string `json:"plugins"`
	// Args are the arguments of the enabled plugins, with the defaults.
	Args      map[string]json.RawMessage `json:"args"`
	Extenders []Extender                 `json:"extenders,omitempty"`
}

// Describe describes a resolved profile.
func Describe(p *Profile) (*Description, error) {
	d := &Description{
		SchedulerName: p.SchedulerName, Policy: p.PolicyName,
		PercentageOfNodesToScore: p.PercentageOfNodesToScore, Parallelism: p.Parallelism,
		PodInitialBackoff: p.PodInitialBackoff.String(), PodMaxBackoff: p.PodMaxBackoff.String(),
		PodMaxInUnschedulablePods: p.PodMaxInUnschedulablePods.String(),
		Plugins:                   map[string][]string{}, Extenders: p.Extenders,
	}
	if p.PodGroupReserveAfter > 0 {
		d.PodGroupReserveAfter = p.PodGroupReserveAfter.String()
	}
	for _, point := range points {
		if list := namedAt(p.Config.Plugins, point); len(list) > 0 {
			d.Plugins[point.name] = list
		}
	}
	var err error
	d.Args, err = enabledArgs(p.Config)
	return d, err
}

// namedAt lists the plugins of a merged set at an extension point: those that it overrides, the
// others of multiPoint, the others of the point, as a framework orders them.
func namedAt(merged *schedconfig.Plugins, at point) []string {
	set := at.internal(merged)
	if at.name == "multiPoint" {
		var unknown []string
		for _, plugin := range set.Enabled {
			if !inTree.Has(plugin.Name) {
				unknown = append(unknown, weighted(plugin, at))
			}
		}
		return unknown
	}
	everywhere := sets.New(pluginNames(merged.MultiPoint.Enabled)...)
	own := sets.New(pluginNames(set.Enabled)...)
	var first, inherited, last []string
	for _, plugin := range set.Enabled {
		if everywhere.Has(plugin.Name) && !named(set.Disabled, plugin.Name) && !named(set.Disabled, allPlugins) {
			first = append(first, weighted(plugin, at))
		} else {
			last = append(last, weighted(plugin, at))
		}
	}
	for _, plugin := range merged.MultiPoint.Enabled {
		if _, known := extends(plugin.Name, at.name); known && !own.Has(plugin.Name) &&
			runsAt(merged, at, plugin.Name) == present {
			inherited = append(inherited, weighted(plugin, at))
		}
	}
	return append(append(first, inherited...), last...)
}

// weighted names a plugin, with its weight where that counts.
func weighted(plugin schedconfig.Plugin, at point) string {
	if !at.weighted {
		return plugin.Name
	}
	return fmt.Sprintf("%s (weight %d)", plugin.Name, max(plugin.Weight, 1))
}
