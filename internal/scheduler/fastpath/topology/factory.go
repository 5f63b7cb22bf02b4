// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"k8s.io/apimachinery/pkg/util/sets"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Factory makes the trackers for the classes of one instance of a profile.
type Factory struct {
	Sources *Sources
	// SpreadArgs and AffinityArgs are the arguments of the profile's plugins, or nil if the profile
	// does not have the plugin.
	SpreadArgs   *schedconfig.PodTopologySpreadArgs
	AffinityArgs *schedconfig.InterPodAffinityArgs
}

// CountKeys returns the number of topology keys in the topology spread constraints and affinity
// terms of a pod.
func CountKeys(pod *schedframework.PodInfo) int {
	keys := sets.New[string]()
	for i := range pod.Pod.Spec.TopologySpreadConstraints {
		keys.Insert(pod.Pod.Spec.TopologySpreadConstraints[i].TopologyKey)
	}
	for term := range ownTerms(pod) {
		keys.Insert(term.TopologyKey)
	}
	return keys.Len()
}
