// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// inTreePoints holds the extension points of kube-scheduler's own plugins. It is a table, because
// the kubectl plugin validates profiles without the code of the plugins; a test compares the two.
var inTreePoints = map[string][]string{
	names.DefaultBinder:         {"bind"},
	names.DefaultPreemption:     {"preEnqueue", "postFilter", "podGroupPostFilter"},
	names.DeferredPodScheduling: {"preFilter", "filter", "permit"},
	names.DynamicResources: {"preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve",
		"preBind", "podGroupPostFilter"},
	names.GangScheduling:                  {"preEnqueue", "permit"},
	names.ImageLocality:                   {"score"},
	names.InterPodAffinity:                {"preFilter", "filter", "preScore", "score"},
	names.NodeAffinity:                    {"preFilter", "filter", "preScore", "score"},
	names.NodeDeclaredFeatures:            {"preFilter", "filter"},
	names.NodeName:                        {"preFilter", "filter"},
	names.NodePorts:                       {"preFilter", "filter"},
	names.NodeResourcesBalancedAllocation: {"preScore", "score"},
	names.NodeResourcesFit:                {"preFilter", "filter", "preScore", "score", "placementScore"},
	names.NodeUnschedulable:               {"preFilter", "filter"},
	names.NodeVolumeLimits:                {"preFilter", "filter"},
	names.PodGroupPodsCount:               {"placementScore"},
	names.PodTopologySpread:               {"preFilter", "filter", "preScore", "score"},
	names.PrioritySort:                    {"queueSort"},
	names.SchedulingGates:                 {"preEnqueue"},
	names.TaintToleration:                 {"preFilter", "filter", "preScore", "score"},
	names.TopologyPlacementGenerator:      {"placementGenerate"},
	names.VolumeBinding:                   {"preFilter", "filter", "preScore", "score", "reserve", "preBind"},
	names.VolumeRestrictions:              {"preFilter", "filter"},
	names.VolumeZone:                      {"preFilter", "filter"},
}

// inTree holds the names of kube-scheduler's own plugins.
var inTree = sets.KeySet(inTreePoints)

// BuiltIn returns the names of the plugins of livesched: kube-scheduler's and its own. Binaries
// with out-of-tree plugins have more.
func BuiltIn() sets.Set[string] { return inTree.Union(sets.KeySet(checkOwnArgs)) }

// extends reports whether a plugin extends a point. It is known for kube-scheduler's own plugins
// only.
func extends(plugin, point string) (extends, known bool) {
	at, known := inTreePoints[plugin]
	return slices.Contains(at, point), known
}

// presence is whether a plugin runs at an extension point, judged by its name.
type presence int

const (
	absent presence = iota
	// possible: the plugin is enabled at multiPoint, and it is unknown whether it extends the
	// point.
	possible
	present
)

// runsAt returns whether a plugin of a merged set runs at an extension point.
func runsAt(merged *schedconfig.Plugins, at point, plugin string) presence {
	set := at.internal(merged)
	if named(set.Enabled, plugin) {
		return present
	}
	if named(set.Disabled, plugin) || named(set.Disabled, allPlugins) || !named(merged.MultiPoint.Enabled, plugin) {
		return absent
	}
	switch does, known := extends(plugin, at.name); {
	case !known:
		return possible
	case does:
		return present
	default:
		return absent
	}
}

// anyAt returns whether any plugin of a merged set runs at an extension point.
func anyAt(merged *schedconfig.Plugins, at point) presence {
	most := absent
	for name := range enabledNames(merged) {
		most = max(most, runsAt(merged, at, name))
	}
	return most
}

func named(list []schedconfig.Plugin, plugin string) bool {
	return slices.ContainsFunc(list, func(p schedconfig.Plugin) bool { return p.Name == plugin })
}

// pointNamed returns the extension point with the name, which must exist.
func pointNamed(name string) point {
	for _, p := range points {
		if p.name == name {
			return p
		}
	}
	panic("no extension point " + name)
}
