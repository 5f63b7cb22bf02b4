// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

// version describes how a version of the configuration API differs from v1 in Kubernetes 1.37,
// which livesched has.
type version struct {
	name string
	// weights are the weights of default score plugins that have changed since.
	weights []weight
	// scoringPlugins means that the scoring strategies of NodeResourcesFit were separate plugins,
	// and that NodeResourcesLeastAllocated was a default plugin.
	scoringPlugins bool
	// listConstraints means that default constraints of PodTopologySpread applied without
	// defaultingType.
	listConstraints bool
}

// weight is the weight of a default score plugin.
type weight struct {
	plugin string
	weight int32
}

// versions are the versions that Convert accepts. The defaults are the defaults in
// pkg/scheduler/apis/config/<version>/default_plugins.go in the last release of Kubernetes with the
// version.
var versions = map[string]version{
	"v1":      {name: "v1"},
	"v1beta3": {name: "v1beta3"},
	"v1beta2": {name: "v1beta2",
		weights: []weight{{names.InterPodAffinity, 1}, {names.NodeAffinity, 1}, {names.TaintToleration, 1}}},
	"v1beta1": {
		name: "v1beta1",
		weights: []weight{{names.InterPodAffinity, 1}, {names.NodeAffinity, 1}, {nodePreferAvoidPods, 10000},
			{names.TaintToleration, 1}},
		scoringPlugins:  true,
		listConstraints: true,
	},
}

// Plugins that kube-scheduler has removed.
const (
	nodeResourcesLeastAllocated = "NodeResourcesLeastAllocated"
	nodeResourcesMostAllocated  = "NodeResourcesMostAllocated"
	requestedToCapacityRatio    = "RequestedToCapacityRatio"
	nodePreferAvoidPods         = "NodePreferAvoidPods"
)

// strategies maps removed plugins to the scoring strategies of NodeResourcesFit that replace them.
var strategies = map[string]string{
	nodeResourcesLeastAllocated: "LeastAllocated",
	nodeResourcesMostAllocated:  "MostAllocated",
	requestedToCapacityRatio:    "RequestedToCapacityRatio",
}

// gone describes the replacements of plugins that kube-scheduler has removed. It is used only for
// plugins that livesched does not have, either.
var gone = map[string]string{
	"EBSLimits":       "the default plugin NodeVolumeLimits applies the limit, which now comes from the CSI driver",
	"GCEPDLimits":     "the default plugin NodeVolumeLimits applies the limit, which now comes from the CSI driver",
	"AzureDiskLimits": "the default plugin NodeVolumeLimits applies the limit, which now comes from the CSI driver",
	"CinderLimits":    "the default plugin NodeVolumeLimits applies the limit, which now comes from the CSI driver",
	"SelectorSpread": "the default plugin PodTopologySpread spreads the pods of services and controllers by its " +
		"default constraints",
	"DefaultPodSpread": "the default plugin PodTopologySpread spreads the pods of services and controllers by its " +
		"default constraints",
	"NodeLabel":         "use node affinity, or args.addedAffinity of NodeAffinity",
	"ServiceAffinity":   "use pod affinity",
	nodePreferAvoidPods: "use a taint with the effect PreferNoSchedule",
}
