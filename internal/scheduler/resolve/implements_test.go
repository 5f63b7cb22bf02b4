// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
	schedplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/deferredpodscheduling"
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
	names.DeferredPodScheduling:           (*deferredpodscheduling.DeferredPodScheduling)(nil),
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
	"preEnqueue":         is[fwk.PreEnqueuePlugin],
	"queueSort":          is[fwk.QueueSortPlugin],
	"preFilter":          is[fwk.PreFilterPlugin],
	"filter":             is[fwk.FilterPlugin],
	"postFilter":         is[fwk.PostFilterPlugin],
	"preScore":           is[fwk.PreScorePlugin],
	"score":              is[fwk.ScorePlugin],
	"reserve":            is[fwk.ReservePlugin],
	"permit":             is[fwk.PermitPlugin],
	"preBind":            is[fwk.PreBindPlugin],
	"bind":               is[fwk.BindPlugin],
	"postBind":           is[fwk.PostBindPlugin],
	"placementGenerate":  is[fwk.PlacementGeneratePlugin],
	"placementScore":     is[fwk.PlacementScorePlugin],
	"podGroupPostFilter": is[fwk.PodGroupPostFilterPlugin],
}

func TestTheExtensionPointsOfInTreePluginsAreThoseOfTheirTypes(t *testing.T) {
	if diff := cmp.Diff(sets.List(sets.KeySet(schedplugins.NewInTreeRegistry())), sets.List(inTree)); diff != "" {
		t.Errorf("(-registered +known)\n%s", diff)
	}
	for name, plugin := range inTreeTypes {
		var want []string
		for _, at := range points {
			if at.name == "multiPoint" {
				continue
			}
			if extensionPoints[at.name] == nil {
				t.Fatalf("no type for extension point %s", at.name)
			}
			if extensionPoints[at.name](plugin) {
				want = append(want, at.name)
			}
		}
		if !slices.Equal(inTreePoints[name], want) {
			t.Errorf("%s: the table has %q, the type implements %q", name, inTreePoints[name], want)
		}
	}
	if len(inTreeTypes) != len(inTree) {
		t.Errorf("the test knows the types of %d plugins, not of all %d", len(inTreeTypes), len(inTree))
	}
}

func TestAPluginIsRefusedWhereItCannotRun(t *testing.T) {
	for _, test := range []struct{ plugin, point, want string }{
		{"NodeName", "score", `spec: plugin "NodeName" does not extend score; it extends preFilter, filter`},
		{"ImageLocality", "filter", `spec: plugin "ImageLocality" does not extend filter; it extends score`},
		{"ImageLocality", "score", ""},
		{"ImageLocality", "multiPoint", ""},
		{"Coscheduling", "score", ""}, // unknown until it is built
		{"NodeName", "queueSort", ""}, // another check is more precise
	} {
		var found problems
		checkExtends(test.plugin, test.point, field.NewPath("spec"), &found)
		if got := found.message(); got != test.want {
			t.Errorf("%s at %s: %q, want %q", test.plugin, test.point, got, test.want)
		}
	}
}
