// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/plugins/nodelabel"
	"github.com/livesched/livesched/internal/scheduler/plugins/nodepreferavoidpods"
	"github.com/livesched/livesched/internal/scheduler/plugins/noderesources"
	"github.com/livesched/livesched/internal/scheduler/plugins/selectorspread"
	"github.com/livesched/livesched/internal/scheduler/plugins/serviceaffinity"
)

// Arguments of predicates and priorities, by the names of their fields in the legacy policy.
const (
	argServiceAffinity     = "serviceAffinity"
	argLabelsPresence      = "labelsPresence"
	argServiceAntiAffinity = "serviceAntiAffinity"
	argLabelPreference     = "labelPreference"
	argRequestedToCapacity = "requestedToCapacityRatioArguments"
)

// LegacyName is a predicate or priority that the Policy API of kube-scheduler accepted in some
// version from 1.10 to 1.22.
type LegacyName struct {
	// Name of the predicate or priority. Empty: any name, together with the argument.
	Name string
	// Versions of kube-scheduler that accepted the name, such as 1.10-1.22; "none" if it only looks
	// like one of them.
	Versions string
	// Plugins that it is made of now, in the order in which they run. None: it has no effect.
	Plugins []string
	// Argument that it can have; empty if it has none.
	Argument string
	// Difference to what kube-scheduler 1.22 did, or the last version that had it. Empty: there is
	// none, apart from fields of pods and nodes that are younger.
	Difference string
}

const (
	conditionsAreTaints = "Node conditions are taints today, which the node lifecycle controller sets and pods can tolerate"
	migratedVolumes     = "Volumes of this kind are CSI volumes today, with the limits of the node's CSI driver"
)

// legacyPredicates is in the order in which the plugins run, which is that of the predicates in
// kube-scheduler 1.22 (predicateOrdering in pkg/scheduler/framework/plugins/legacy_registry.go
// there).
var legacyPredicates = []LegacyName{
	{Name: "CheckNodeUnschedulable", Versions: "1.12-1.22", Plugins: []string{names.NodeUnschedulable}},
	{Name: "GeneralPredicates", Versions: "1.10-1.22", Plugins: []string{names.NodeResourcesFit, names.NodeName, names.NodePorts, names.NodeAffinity}},
	{Name: "HostName", Versions: "1.10-1.22", Plugins: []string{names.NodeName}},
	{Name: "PodFitsHostPorts", Versions: "1.10-1.22", Plugins: []string{names.NodePorts}},
	{Name: "PodFitsPorts", Versions: "1.10-1.22", Plugins: []string{names.NodePorts}},
	{Name: "MatchNodeSelector", Versions: "1.10-1.22", Plugins: []string{names.NodeAffinity}},
	{Name: "PodFitsResources", Versions: "1.10-1.22", Plugins: []string{names.NodeResourcesFit}},
	{Name: "NoDiskConflict", Versions: "1.10-1.22", Plugins: []string{names.VolumeRestrictions}, Difference: "It also keeps ReadWriteOncePod volumes to one pod"},
	{Name: "PodToleratesNodeTaints", Versions: "1.10-1.22", Plugins: []string{names.TaintToleration}},
	{Name: "PodToleratesNodeNoExecuteTaints", Versions: "none", Plugins: []string{names.TaintToleration},
		Difference: "kube-scheduler had such a predicate up to 1.17, but policies could not name it; taints of effect NoSchedule count too, as in every policy"},
	{Name: "CheckNodeCondition", Versions: "1.10-1.16", Plugins: []string{names.TaintToleration}, Difference: conditionsAreTaints},
	{Name: "CheckNodeMemoryPressure", Versions: "1.10-1.16", Plugins: []string{names.TaintToleration}, Difference: conditionsAreTaints},
	{Name: "CheckNodeDiskPressure", Versions: "1.10-1.16", Plugins: []string{names.TaintToleration}, Difference: conditionsAreTaints},
	{Name: "CheckNodePIDPressure", Versions: "1.11-1.16", Plugins: []string{names.TaintToleration}, Difference: conditionsAreTaints},
	{Name: "CheckNodeLabelPresence", Versions: "1.17-1.22", Plugins: []string{nodelabel.Name}, Argument: argLabelsPresence, Difference: "An argument counts; 1.17-1.22 ignored it under this name, and looked at no label"},
	{Versions: "1.10-1.22", Plugins: []string{nodelabel.Name}, Argument: argLabelsPresence},
	{Name: "CheckServiceAffinity", Versions: "1.17-1.22", Plugins: []string{serviceaffinity.Name}, Argument: argServiceAffinity, Difference: "An argument counts; 1.17-1.22 ignored it under this name, and looked at no label"},
	{Versions: "1.10-1.22", Plugins: []string{serviceaffinity.Name}, Argument: argServiceAffinity},
	{Name: "MaxEBSVolumeCount", Versions: "1.10-1.22", Plugins: []string{names.NodeVolumeLimits}, Difference: migratedVolumes},
	{Name: "MaxGCEPDVolumeCount", Versions: "1.10-1.22", Plugins: []string{names.NodeVolumeLimits}, Difference: migratedVolumes},
	{Name: "MaxCSIVolumeCountPred", Versions: "1.12-1.22", Plugins: []string{names.NodeVolumeLimits}},
	{Name: "MaxAzureDiskVolumeCount", Versions: "1.10-1.22", Plugins: []string{names.NodeVolumeLimits}, Difference: migratedVolumes},
	{Name: "MaxCinderVolumeCount", Versions: "1.14-1.22", Plugins: []string{names.NodeVolumeLimits}, Difference: migratedVolumes},
	{Name: "CheckVolumeBinding", Versions: "1.10-1.22", Plugins: []string{names.VolumeBinding}},
	{Name: "NoVolumeZoneConflict", Versions: "1.10-1.22", Plugins: []string{names.VolumeZone}},
	{Name: "EvenPodsSpread", Versions: "1.16-1.22", Plugins: []string{names.PodTopologySpread}},
	{Name: "MatchInterPodAffinity", Versions: "1.10-1.22", Plugins: []string{names.InterPodAffinity}},
}

// mandatoryPredicates are in every policy, even if it does not name them (mandatoryPredicates in
// the same file).
var mandatoryPredicates = []string{"PodToleratesNodeTaints", "CheckNodeUnschedulable"}

// The names of two priorities.
const (
	equalPriority                    = "EqualPriority"
	requestedToCapacityRatioPriority = "RequestedToCapacityRatioPriority"
)

var legacyPriorities = []LegacyName{
	{Name: equalPriority, Versions: "1.10-1.22"},
	{Name: "LeastRequestedPriority", Versions: "1.10-1.22", Plugins: []string{noderesources.LeastAllocatedName}},
	{Name: "MostRequestedPriority", Versions: "1.10-1.22", Plugins: []string{noderesources.MostAllocatedName}},
	{Name: requestedToCapacityRatioPriority, Versions: "1.11-1.17", Plugins: []string{noderesources.RequestedToCapacityRatioName}, Argument: argRequestedToCapacity,
		Difference: "Without an argument it prefers empty nodes, as in 1.11-1.17; later versions had no such priority without one"},
	{Versions: "1.11-1.22", Plugins: []string{noderesources.RequestedToCapacityRatioName}, Argument: argRequestedToCapacity},
	{Name: "BalancedResourceAllocation", Versions: "1.10-1.22", Plugins: []string{names.NodeResourcesBalancedAllocation},
		Difference: "It compares a node with and without the pod, and leaves pods without requests alone"},
	{Name: "SelectorSpreadPriority", Versions: "1.10-1.22", Plugins: []string{selectorspread.Name},
		Difference: "None to 1.10-1.19; 1.20-1.22 ran default constraints of PodTopologySpread in its place, unless the feature gate DefaultPodTopologySpread was off"},
	{Name: "ServiceSpreadingPriority", Versions: "1.10-1.22", Plugins: []string{selectorspread.Name},
		Difference: "The same as SelectorSpreadPriority, as in 1.17-1.22; up to 1.16 services alone counted"},
	{Versions: "1.10-1.22", Plugins: []string{serviceaffinity.Name}, Argument: argServiceAntiAffinity},
	{Name: "EvenPodsSpreadPriority", Versions: "1.16-1.22", Plugins: []string{names.PodTopologySpread}},
	{Name: "InterPodAffinityPriority", Versions: "1.10-1.22", Plugins: []string{names.InterPodAffinity}},
	{Name: "NodeAffinityPriority", Versions: "1.10-1.22", Plugins: []string{names.NodeAffinity}},
	{Name: "TaintTolerationPriority", Versions: "1.10-1.22", Plugins: []string{names.TaintToleration}},
	{Versions: "1.10-1.22", Plugins: []string{nodelabel.Name}, Argument: argLabelPreference},
	{Name: "NodePreferAvoidPodsPriority", Versions: "1.10-1.22", Plugins: []string{nodepreferavoidpods.Name}},
	{Name: "ImageLocalityPriority", Versions: "1.10-1.22", Plugins: []string{names.ImageLocality}, Difference: "Images of init containers and of image volumes count too"},
	{Name: "ResourceLimitsPriority", Versions: "1.10-1.18", Plugins: []string{noderesources.LimitsName}, Difference: "No feature gate is needed"},
}

// pluginPoints are the extension points at which a plugin serves a predicate, and whether it also
// scores.
type pluginPoints struct {
	// deciding are all but preScore and score.
	deciding []string
	// scoring are preScore and score, as many as the plugin has.
	scoring []string
}

// legacyPoints are the extension points of the plugins that legacy policies are made of: today's,
// which are more than in kube-scheduler 1.22. A filter needs its preFilter, and most scores need
// their preScore.
var legacyPoints = map[string]pluginPoints{
	names.NodeUnschedulable:                    {deciding: []string{"filter"}},
	names.NodeName:                             {deciding: []string{"filter"}},
	names.NodePorts:                            {deciding: []string{"preFilter", "filter"}},
	names.NodeResourcesFit:                     {deciding: []string{"preFilter", "filter"}, scoring: []string{"preScore", "score"}},
	names.NodeAffinity:                         {deciding: []string{"preFilter", "filter"}, scoring: []string{"preScore", "score"}},
	names.TaintToleration:                      {deciding: []string{"filter"}, scoring: []string{"preScore", "score"}},
	names.VolumeRestrictions:                   {deciding: []string{"preFilter", "filter"}},
	names.NodeVolumeLimits:                     {deciding: []string{"preFilter", "filter"}},
	names.VolumeBinding:                        {deciding: []string{"preFilter", "filter", "reserve", "preBind"}, scoring: []string{"preScore", "score"}},
	names.VolumeZone:                           {deciding: []string{"preFilter", "filter"}},
	names.PodTopologySpread:                    {deciding: []string{"preFilter", "filter"}, scoring: []string{"preScore", "score"}},
	names.InterPodAffinity:                     {deciding: []string{"preFilter", "filter"}, scoring: []string{"preScore", "score"}},
	names.NodeResourcesBalancedAllocation:      {scoring: []string{"preScore", "score"}},
	names.ImageLocality:                        {scoring: []string{"score"}},
	nodelabel.Name:                             {deciding: []string{"filter"}, scoring: []string{"score"}},
	nodepreferavoidpods.Name:                   {scoring: []string{"score"}},
	noderesources.LeastAllocatedName:           {scoring: []string{"preScore", "score"}},
	noderesources.LimitsName:                   {scoring: []string{"score"}},
	noderesources.MostAllocatedName:            {scoring: []string{"preScore", "score"}},
	noderesources.RequestedToCapacityRatioName: {scoring: []string{"preScore", "score"}},
	selectorspread.Name:                        {scoring: []string{"preScore", "score"}},
	serviceaffinity.Name:                       {deciding: []string{"preFilter", "filter"}, scoring: []string{"preScore", "score"}},
	// Plugins that never belonged to a predicate, but without which today's pods would be placed
	// wrongly. They run in every policy, after the predicates. Other plugins that kube-scheduler
	// enables by default stay in multiPoint.
	names.DynamicResources:     {deciding: []string{"preEnqueue", "preFilter", "filter", "postFilter", "reserve", "preBind"}, scoring: []string{"score"}},
	names.NodeDeclaredFeatures: {deciding: []string{"preFilter", "filter"}},
	names.DefaultPreemption:    {deciding: []string{"preEnqueue", "postFilter"}},
}

// LegacyNames returns the names of all predicates and priorities that have one.
func LegacyNames() (names []string) {
	for _, table := range [...][]LegacyName{legacyPredicates, legacyPriorities} {
		for i := range table {
			if table[i].Name != "" {
				names = append(names, table[i].Name)
			}
		}
	}
	return names
}
