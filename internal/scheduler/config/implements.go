// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/gangscheduling"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodedeclaredfeatures"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podgrouppodscount"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/schedulinggates"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/topologyaware"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
)

// inTreeTypes holds typed nil values of kube-scheduler's own plugins, to find the interfaces that
// they implement. They are never called.
var inTreeTypes = map[string]fwk.Plugin{
	names.DefaultBinder:                   (*defaultbinder.DefaultBinder)(nil),
	names.DefaultPreemption:               (*defaultpreemption.DefaultPreemption)(nil),
	names.DynamicResources:                (*dynamicresources.DynamicResources)(nil),
	names.GangScheduling:                  (*gangscheduling.GangScheduling)(nil),
	names.ImageLocality:                   (*imagelocality.ImageLocality)(nil),
	names.InterPodAffinity:                (*interpodaffinity.InterPodAffinity)(nil),
	names.NodeAffinity:                    (*nodeaffinity.NodeAffinity)(nil),
	names.NodeDeclaredFeatures:            (*nodedeclaredfeatures.NodeDeclaredFeatures)(nil),
	names.NodeName:                        (*nodename.NodeName)(nil),
	names.NodePorts:                       (*nodeports.NodePorts)(nil),
	names.NodeResourcesBalancedAllocation: (*noderesources.BalancedAllocation)(nil),
	names.NodeResourcesFit:                (*noderesources.Fit)(nil),
	names.NodeUnschedulable:               (*nodeunschedulable.NodeUnschedulable)(nil),
	names.NodeVolumeLimits:                (*nodevolumelimits.CSILimits)(nil),
	names.PodGroupPodsCount:               (*podgrouppodscount.PodGroupPodsCount)(nil),
	names.PodTopologySpread:               (*podtopologyspread.PodTopologySpread)(nil),
	names.PrioritySort:                    (*queuesort.PrioritySort)(nil),
	names.SchedulingGates:                 (*schedulinggates.SchedulingGates)(nil),
	names.TaintToleration:                 (*tainttoleration.TaintToleration)(nil),
	names.TopologyPlacementGenerator:      (*topologyaware.TopologyPlacement)(nil),
	names.VolumeBinding:                   (*volumebinding.VolumeBinding)(nil),
	names.VolumeRestrictions:              (*volumerestrictions.VolumeRestrictions)(nil),
	names.VolumeZone:                      (*volumezone.VolumeZone)(nil),
}

// is reports whether a plugin implements the interface of an extension point.
func is[T fwk.Plugin](plugin fwk.Plugin) bool {
	_, ok := plugin.(T)
	return ok
}

// extensionPoints holds the checks of which plugins extend a point, by the name of its field.
var extensionPoints = map[string]func(fwk.Plugin) bool{
	"preEnqueue":        is[fwk.PreEnqueuePlugin],
	"queueSort":         is[fwk.QueueSortPlugin],
	"preFilter":         is[fwk.PreFilterPlugin],
	"filter":            is[fwk.FilterPlugin],
	"postFilter":        is[fwk.PostFilterPlugin],
	"preScore":          is[fwk.PreScorePlugin],
	"score":             is[fwk.ScorePlugin],
	"reserve":           is[fwk.ReservePlugin],
	"permit":            is[fwk.PermitPlugin],
	"preBind":           is[fwk.PreBindPlugin],
	"bind":              is[fwk.BindPlugin],
	"postBind":          is[fwk.PostBindPlugin],
	"placementGenerate": is[fwk.PlacementGeneratePlugin],
	"placementScore":    is[fwk.PlacementScorePlugin],
}

// extends reports whether a plugin extends a point. It is known for kube-scheduler's own plugins
// only.
func extends(plugin, point string) (extends, known bool) {
	of := inTreeTypes[plugin]
	if of == nil {
		return false, false
	}
	return extensionPoints[point](of), true
}

// extended returns the points that one of kube-scheduler's own plugins extends.
func extended(plugin string) (names []string) {
	for _, point := range points {
		if point.name == "multiPoint" {
			continue
		}
		if does, _ := extends(plugin, point.name); does {
			names = append(names, point.name)
		}
	}
	return names
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
	for _, p := range list {
		if p.Name == plugin {
			return true
		}
	}
	return false
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
