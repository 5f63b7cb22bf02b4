// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
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
	conditionsAreTaints = "Node conditions are taints today, which the node lifecycle controller sets and pods can " +
		"tolerate"
	migratedVolumes = "Volumes of this kind are CSI volumes today, with the limits of the node's CSI driver"
)

// legacyPredicates is in the order in which the plugins run, which is the order of the predicates
// in kube-scheduler 1.22 (predicateOrdering in pkg/scheduler/framework/plugins/legacy_registry.go
// there).
var legacyPredicates = []LegacyName{
	{Name: "CheckNodeUnschedulable", Versions: "1.12-1.22", Plugins: []string{names.NodeUnschedulable}},
	{Name: "GeneralPredicates", Versions: "1.10-1.22",
		Plugins: []string{names.NodeResourcesFit, names.NodeName, names.NodePorts, names.NodeAffinity}},
	{Name: "HostName", Versions: "1.10-1.22", Plugins: []string{names.NodeName}},
	{Name: "PodFitsHostPorts", Versions: "1.10-1.22", Plugins: []string{names.NodePorts}},
	{Name: "PodFitsPorts", Versions: "1.10-1.22", Plugins: []string{names.NodePorts}},
	{Name: "MatchNodeSelector", Versions: "1.10-1.22", Plugins: []string{names.NodeAffinity}},
	{Name: "PodFitsResources", Versions: "1.10-1.22", Plugins: []string{names.NodeResourcesFit}},
	{Name: "NoDiskConflict", Versions: "1.10-1.22", Plugins: []string{names.VolumeRestrictions},
		Difference: "It also keeps ReadWriteOncePod volumes to one pod"},
	{Name: "PodToleratesNodeTaints", Versions: "1.10-1.22", Plugins: []string{names.TaintToleration}},
	{Name: "PodToleratesNodeNoExecuteTaints", Versions: "none", Plugins: []string{names.TaintToleration},
		Difference: "kube-scheduler had such a predicate up to 1.17, but policies could not name it; taints of " +
			"effect NoSchedule count too, as in every policy"},
	{Name: "CheckNodeCondition", Versions: "1.10-1.16", Plugins: []string{names.TaintToleration},
		Difference: conditionsAreTaints},
	{Name: "CheckNodeMemoryPressure", Versions: "1.10-1.16", Plugins: []string{names.TaintToleration},
		Difference: conditionsAreTaints},
	{Name: "CheckNodeDiskPressure", Versions: "1.10-1.16", Plugins: []string{names.TaintToleration},
		Difference: conditionsAreTaints},
	{Name: "CheckNodePIDPressure", Versions: "1.11-1.16", Plugins: []string{names.TaintToleration},
		Difference: conditionsAreTaints},
	{Name: "CheckNodeLabelPresence", Versions: "1.17-1.22", Plugins: []string{nodelabel.Name},
		Argument:   argLabelsPresence,
		Difference: "An argument counts; 1.17-1.22 ignored it under this name, and looked at no label"},
	{Versions: "1.10-1.22", Plugins: []string{nodelabel.Name}, Argument: argLabelsPresence},
	{Name: "CheckServiceAffinity", Versions: "1.17-1.22", Plugins: []string{serviceaffinity.Name},
		Argument:   argServiceAffinity,
		Difference: "An argument counts; 1.17-1.22 ignored it under this name, and looked at no label"},
	{Versions: "1.10-1.22", Plugins: []string{serviceaffinity.Name}, Argument: argServiceAffinity},
	{Name: "MaxEBSVolumeCount", Versions: "1.10-1.22", Plugins: []string{names.NodeVolumeLimits},
		Difference: migratedVolumes},
	{Name: "MaxGCEPDVolumeCount", Versions: "1.10-1.22", Plugins: []string{names.NodeVolumeLimits},
		Difference: migratedVolumes},
	{Name: "MaxCSIVolumeCountPred", Versions: "1.12-1.22", Plugins: []string{names.NodeVolumeLimits}},
	{Name: "MaxAzureDiskVolumeCount", Versions: "1.10-1.22", Plugins: []string{names.NodeVolumeLimits},
		Difference: migratedVolumes},
	{Name: "MaxCinderVolumeCount", Versions: "1.14-1.22", Plugins: []string{names.NodeVolumeLimits},
		Difference: migratedVolumes},
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
	{Name: requestedToCapacityRatioPriority, Versions: "1.11-1.17",
		Plugins: []string{noderesources.RequestedToCapacityRatioName}, Argument: argRequestedToCapacity,
		Difference: "Without an argument it prefers empty nodes, as in 1.11-1.17; later versions had no such " +
			"priority without one"},
	{Versions: "1.11-1.22", Plugins: []string{noderesources.RequestedToCapacityRatioName},
		Argument: argRequestedToCapacity},
	{Name: "BalancedResourceAllocation", Versions: "1.10-1.22",
		Plugins:    []string{names.NodeResourcesBalancedAllocation},
		Difference: "It compares a node with and without the pod, and leaves pods without requests alone"},
	{Name: "SelectorSpreadPriority", Versions: "1.10-1.22", Plugins: []string{selectorspread.Name},
		Difference: "None to 1.10-1.19; 1.20-1.22 ran default constraints of PodTopologySpread in its place, unless " +
			"the feature gate DefaultPodTopologySpread was off"},
	{Name: "ServiceSpreadingPriority", Versions: "1.10-1.22", Plugins: []string{selectorspread.Name},
		Difference: "The same as SelectorSpreadPriority, as in 1.17-1.22; up to 1.16 services alone counted"},
	{Versions: "1.10-1.22", Plugins: []string{serviceaffinity.Name}, Argument: argServiceAntiAffinity},
	{Name: "EvenPodsSpreadPriority", Versions: "1.16-1.22", Plugins: []string{names.PodTopologySpread}},
	{Name: "InterPodAffinityPriority", Versions: "1.10-1.22", Plugins: []string{names.InterPodAffinity}},
	{Name: "NodeAffinityPriority", Versions: "1.10-1.22", Plugins: []string{names.NodeAffinity}},
	{Name: "TaintTolerationPriority", Versions: "1.10-1.22", Plugins: []string{names.TaintToleration}},
	{Versions: "1.10-1.22", Plugins: []string{nodelabel.Name}, Argument: argLabelPreference},
	{Name: "NodePreferAvoidPodsPriority", Versions: "1.10-1.22", Plugins: []string{nodepreferavoidpods.Name}},
	{Name: "ImageLocalityPriority", Versions: "1.10-1.22", Plugins: []string{names.ImageLocality},
		Difference: "Images of init containers and of image volumes count too"},
	{Name: "ResourceLimitsPriority", Versions: "1.10-1.18", Plugins: []string{noderesources.LimitsName},
		Difference: "No feature gate is needed"},
}

// ownPoints are the extension points of livesched's own plugins: see inTreePoints for the others.
var ownPoints = map[string][]string{
	nodelabel.Name:                             {"filter", "score"},
	nodepreferavoidpods.Name:                   {"score"},
	noderesources.LeastAllocatedName:           {"preScore", "score"},
	noderesources.LimitsName:                   {"score"},
	noderesources.MostAllocatedName:            {"preScore", "score"},
	noderesources.RequestedToCapacityRatioName: {"preScore", "score"},
	selectorspread.Name:                        {"preScore", "score"},
	serviceaffinity.Name:                       {"preFilter", "filter", "preScore", "score"},
}

// inMultiPoint are kube-scheduler's plugins that neither serve predicates and priorities nor run in
// every policy after them. They stay in multiPoint.
var inMultiPoint = gated.Union(sets.New(names.DefaultBinder, names.PrioritySort, names.SchedulingGates))

// legacyPoints returns the extension points of a plugin in a legacy policy: today's, which are more
// than in kube-scheduler 1.22. A filter needs its preFilter, and most scores need their preScore.
// scoring are preScore and score, and deciding all others.
func legacyPoints(plugin string) (deciding, scoring []string) {
	for _, point := range slices.Concat(inTreePoints[plugin], ownPoints[plugin]) {
		switch point {
		case "preScore", "score":
			scoring = append(scoring, point)
		case "placementScore": // livesched calls no plugin there
		default:
			deciding = append(deciding, point)
		}
	}
	return deciding, scoring
}

// LegacyNames returns the names of all predicates and priorities that have one.
func LegacyNames() []string {
	return append(namesIn(legacyPredicates), namesIn(legacyPriorities)...)
}

func namesIn(table []LegacyName) (names []string) {
	for i := range table {
		if table[i].Name != "" {
			names = append(names, table[i].Name)
		}
	}
	return names
}
