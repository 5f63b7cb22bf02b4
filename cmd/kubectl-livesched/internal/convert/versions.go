// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

// version is what a version of the configuration API did in another way than v1 of Kubernetes 1.36,
// which livesched has.
type version struct {
	name string
	// weights of default score plugins that were others than today's.
	weights []weight
	// scoringPlugins: there were plugins of their own for what are scoring strategies of
	// NodeResourcesFit today, and NodeResourcesLeastAllocated was one of the default plugins.
	scoringPlugins bool
	// listConstraints: default constraints of PodTopologySpread applied without defaultingType.
	listConstraints bool
}

// weight is the weight of a default score plugin.
type weight struct {
	plugin string
	weight int32
}

// versions are those that can be read. The defaults are those of
// pkg/scheduler/apis/config/<version>/default_plugins.go in the last release of Kubernetes that had
// the version.
var versions = map[string]version{
	"v1":      {name: "v1"},
	"v1beta3": {name: "v1beta3"},
	"v1beta2": {name: "v1beta2", weights: []weight{{names.InterPodAffinity, 1}, {names.NodeAffinity, 1}, {names.TaintToleration, 1}}},
	"v1beta1": {
		name:            "v1beta1",
		weights:         []weight{{names.InterPodAffinity, 1}, {names.NodeAffinity, 1}, {nodePreferAvoidPods, 10000}, {names.TaintToleration, 1}},
		scoringPlugins:  true,
		listConstraints: true,
	},
}

// Plugins that kube-scheduler had once.
const (
	nodeResourcesLeastAllocated = "NodeResourcesLeastAllocated"
	nodeResourcesMostAllocated  = "NodeResourcesMostAllocated"
	requestedToCapacityRatio    = "RequestedToCapacityRatio"
	nodePreferAvoidPods         = "NodePreferAvoidPods"
)

// strategies are the scoring strategies of NodeResourcesFit that have taken the place of plugins.
var strategies = map[string]string{
	nodeResourcesLeastAllocated: "LeastAllocated",
	nodeResourcesMostAllocated:  "MostAllocated",
	requestedToCapacityRatio:    "RequestedToCapacityRatio",
}

// gone says what takes the place of plugins that kube-scheduler has removed. It matters only where
// livesched does not have one of its own under the name.
var gone = map[string]string{
	"EBSLimits":         "the limit comes from the CSI driver now, and NodeVolumeLimits, a default plugin, heeds it",
	"GCEPDLimits":       "the limit comes from the CSI driver now, and NodeVolumeLimits, a default plugin, heeds it",
	"AzureDiskLimits":   "the limit comes from the CSI driver now, and NodeVolumeLimits, a default plugin, heeds it",
	"CinderLimits":      "the limit comes from the CSI driver now, and NodeVolumeLimits, a default plugin, heeds it",
	"SelectorSpread":    "PodTopologySpread, a default plugin, spreads the pods of services and controllers by its default constraints",
	"DefaultPodSpread":  "PodTopologySpread, a default plugin, spreads the pods of services and controllers by its default constraints",
	"NodeLabel":         "use node affinity, or args.addedAffinity of NodeAffinity",
	"ServiceAffinity":   "use pod affinity",
	nodePreferAvoidPods: "use a taint with the effect PreferNoSchedule",
}
